//! `linkledger links tags`: lists the tags of the links, one page or all pages.

use clap::Args;
use serde::Deserialize;

use crate::{
    client::{ApiCall, ApiClient},
    paging::{PagingOptions, TableRow},
    table::{ColumnLayout, TableColumn},
};

/// Number up to which the API counts the links of a tag.
const LINKS_COUNTED_MAX: i64 = 10_000;

/// Options of `linkledger links tags`.
#[derive(Debug, Args)]
pub(crate) struct ListTagsOptions {
    #[command(flatten)]
    paging: PagingOptions,
}

/// Tag as the API returns it.
#[derive(Deserialize)]
struct TagDocument {
    tag: String,
    links: i64,
}

impl TableRow for TagDocument {
    const COLUMNS: &[TableColumn] = &[
        TableColumn("LINKS", ColumnLayout::Number),
        TableColumn("TAG", ColumnLayout::Text),
    ];

    fn cells(self) -> Vec<String> {
        let more = if self.links == LINKS_COUNTED_MAX {
            "+"
        } else {
            ""
        };
        vec![format!("{}{more}", self.links), self.tag]
    }
}

pub(super) async fn run(
    client: &ApiClient,
    tags: &ListTagsOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let call = ApiCall::get(&["v1", "tags"]);
    tags.paging
        .print::<TagDocument>(client, call, is_json)
        .await
}
