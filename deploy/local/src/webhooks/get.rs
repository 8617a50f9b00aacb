//! `linkledger webhooks get`: shows one webhook.

use clap::Args;
use linkledger_core::id::WebhookId;

use super::webhook::print_webhook;
use crate::client::{ApiCall, ApiClient};

/// Options of `linkledger webhooks get`.
#[derive(Debug, Args)]
pub(crate) struct GetWebhookOptions {
    /// Id of the webhook (whe_…).
    webhook: WebhookId,
}

pub(super) async fn run(
    client: &ApiClient,
    get: &GetWebhookOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let id = get.webhook.to_string();
    let call = ApiCall::get(&["v1", "webhooks", &id]);
    let answer = client.send(&call).await?;
    print_webhook(client, &call, &answer, is_json)
}
