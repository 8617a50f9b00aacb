//! `linkledger links list`: a page, or all of them.

use clap::Args;

use super::Link;
use crate::{
    client::{Call, Client},
    paging::{Paging, Row},
    table::{Column, Layout, short_time},
};

/// Which links.
#[derive(Debug, Args)]
pub(crate) struct ListLinks {
    #[command(flatten)]
    paging: Paging,
    /// Only the link with this slug.
    #[arg(long)]
    slug: Option<String>,
    /// Only links that lead to exactly this address.
    #[arg(long, value_name = "URL")]
    destination_url: Option<String>,
}

impl Row for Link {
    const COLUMNS: &[Column] = &[
        Column("ID", Layout::Text),
        Column("SHORT URL", Layout::Text),
        Column("CREATED", Layout::Optional),
        Column("DESTINATION", Layout::Text),
    ];

    fn cells(self) -> Vec<String> {
        let created = short_time(&self.created_at);
        vec![self.id, self.short_url, created, self.destination_url]
    }
}

pub(super) async fn run(client: &Client, list: &ListLinks, is_json: bool) -> anyhow::Result<()> {
    let call = Call::get(&["v1", "links"])
        .query("slug", list.slug.clone())
        .query("destination_url", list.destination_url.clone());
    list.paging.print::<Link>(client, call, is_json).await
}
