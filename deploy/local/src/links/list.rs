//! `linkledger links list`: lists one page of links, or all pages.

use clap::Args;

use super::LinkDocument;
use crate::{
    client::{ApiCall, ApiClient},
    paging::{PagingOptions, TableRow},
    table::{ColumnLayout, TableColumn, short_time},
};

/// Options of `linkledger links list`.
#[derive(Debug, Args)]
pub(crate) struct ListLinksOptions {
    #[command(flatten)]
    paging: PagingOptions,
    /// List only the link with this slug.
    #[arg(long)]
    slug: Option<String>,
    /// List only links with exactly this destination.
    #[arg(long, value_name = "URL")]
    destination_url: Option<String>,
}

impl TableRow for LinkDocument {
    const COLUMNS: &[TableColumn] = &[
        TableColumn("ID", ColumnLayout::Text),
        TableColumn("SHORT URL", ColumnLayout::Text),
        TableColumn("CREATED", ColumnLayout::Optional),
        TableColumn("DESTINATION", ColumnLayout::Text),
    ];

    fn cells(self) -> Vec<String> {
        let created = short_time(&self.created_at);
        vec![self.id, self.short_url, created, self.destination_url]
    }
}

pub(super) async fn run(
    client: &ApiClient,
    list: &ListLinksOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let call = ApiCall::get(&["v1", "links"])
        .query("slug", list.slug.clone())
        .query("destination_url", list.destination_url.clone());
    list.paging
        .print::<LinkDocument>(client, call, is_json)
        .await
}
