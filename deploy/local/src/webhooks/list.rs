//! `linkledger webhooks list`: lists all webhooks of the account; there are few.

use serde::Deserialize;

use super::webhook::WebhookDocument;
use crate::{
    client::{ApiCall, ApiClient},
    output::print,
    paging::{TableRow, terminal_width},
    table::PagedTable,
};

#[derive(Deserialize)]
struct WebhookList {
    items: Vec<WebhookDocument>,
}

pub(super) async fn run(client: &ApiClient, is_json: bool) -> anyhow::Result<()> {
    let call = ApiCall::get(&["v1", "webhooks"]);
    let answer = client.send(&call).await?;
    let list: WebhookList = client.read(&call, &answer)?;
    if is_json {
        return print(&answer.text());
    }
    let rows: Vec<Vec<String>> = list.items.into_iter().map(TableRow::cells).collect();
    let mut table = PagedTable::new(WebhookDocument::COLUMNS, terminal_width());
    print(&table.page(&rows))
}
