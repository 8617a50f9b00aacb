//! `linkledger links list`: lists one page of links, or all pages.

use clap::{Args, ValueEnum};

use super::LinkDocument;
use crate::{
    clicks::name,
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
    /// List only links whose slugs begin with this text.
    #[arg(long, value_name = "TEXT")]
    slug_prefix: Option<String>,
    /// List only links to this host, such as shop.example.com.
    #[arg(long, value_name = "HOST")]
    destination_host: Option<String>,
    /// List only the link with this external id.
    #[arg(long, value_name = "ID")]
    external_id: Option<String>,
    /// List only links with this tag; repeat the option for links that have all of several tags.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// List only links in this state: active, disabled, or expired.
    #[arg(long)]
    state: Option<ListedState>,
    /// List only links that were created at this instant or later; a date begins in UTC.
    #[arg(long, value_name = "INSTANT|DATE")]
    created_from: Option<String>,
    /// List only links that were created before this instant; a date begins in UTC.
    #[arg(long, value_name = "INSTANT|DATE")]
    created_to: Option<String>,
    /// Order of the list: newest first, or oldest first.
    #[arg(long, value_name = "ORDER", allow_hyphen_values = true)]
    sort: Option<ListOrder>,
}

/// Value of `--state`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ListedState {
    Active,
    Disabled,
    Expired,
}

/// Value of `--sort`, by the names of the API.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ListOrder {
    #[value(name = "-created_at")]
    NewestFirst,
    #[value(name = "created_at")]
    OldestFirst,
}

impl TableRow for LinkDocument {
    const COLUMNS: &[TableColumn] = &[
        TableColumn("ID", ColumnLayout::Text),
        TableColumn("SHORT URL", ColumnLayout::Text),
        TableColumn("CREATED", ColumnLayout::WideOnly),
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
    let tags = (!list.tags.is_empty()).then(|| list.tags.join(","));
    let call = ApiCall::get(&["v1", "links"])
        .query("slug", list.slug.clone())
        .query("destination_url", list.destination_url.clone())
        .query("slug_prefix", list.slug_prefix.clone())
        .query("destination_host", list.destination_host.clone())
        .query("external_id", list.external_id.clone())
        .query("tag", tags)
        .query("state", list.state.as_ref().and_then(name))
        .query("created_from", list.created_from.clone())
        .query("created_to", list.created_to.clone())
        .query("sort", list.sort.as_ref().and_then(name));
    list.paging
        .print::<LinkDocument>(client, call, is_json)
        .await
}
