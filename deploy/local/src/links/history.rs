//! `linkledger links history`: lists the events of a link, one page or all pages.

use std::collections::BTreeMap;

use clap::Args;
use linkledger_core::link::LinkName;
use serde::Deserialize;
use serde_json::Value;

use super::find_link;
use crate::{
    client::{ApiCall, ApiClient},
    paging::{PagingOptions, TableRow},
    table::{ColumnLayout, TableColumn, short_time, value_text},
};

/// Options of `linkledger links history`.
#[derive(Debug, Args)]
pub(crate) struct LinkHistoryOptions {
    /// Id (lnk_…), slug or short address of the link; of a deleted link the id.
    link: LinkName,
    #[command(flatten)]
    paging: PagingOptions,
}

/// Event of a link as the API returns it.
#[derive(Deserialize)]
struct HistoryEntry {
    version: i64,
    #[serde(rename = "type")]
    event_type: String,
    at: String,
    by: Option<String>,
    changes: BTreeMap<String, Change>,
}

/// Values of a member before and after an event. A value that is not set is null or absent.
#[derive(Deserialize)]
pub(crate) struct Change {
    #[serde(default)]
    from: Value,
    #[serde(default)]
    to: Value,
}

impl Change {
    /// Returns the change as text.
    pub(crate) fn text(&self, name: &str) -> String {
        let (from, to) = (value_text(&self.from), value_text(&self.to));
        format!("{name}: {from} -> {to}")
    }
}

impl TableRow for HistoryEntry {
    const COLUMNS: &[TableColumn] = &[
        TableColumn("VERSION", ColumnLayout::Number),
        TableColumn("AT", ColumnLayout::Text),
        TableColumn("BY", ColumnLayout::WideOnly),
        TableColumn("TYPE", ColumnLayout::Text),
        TableColumn("CHANGES", ColumnLayout::Text),
    ];

    fn cells(self) -> Vec<String> {
        let changes = self.changes.iter().map(|(name, change)| change.text(name));
        let changes = changes.collect::<Vec<_>>().join("; ");
        vec![
            self.version.to_string(),
            short_time(&self.at),
            self.by.unwrap_or_else(|| "-".to_owned()),
            self.event_type,
            changes,
        ]
    }
}

pub(super) async fn run(
    client: &ApiClient,
    history: &LinkHistoryOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let id = find_link(client, &history.link).await?.to_string();
    let call = ApiCall::get(&["v1", "links", &id, "history"]);
    history
        .paging
        .print::<HistoryEntry>(client, call, is_json)
        .await
}
