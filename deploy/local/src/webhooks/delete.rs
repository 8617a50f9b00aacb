//! `linkledger webhooks delete`: deletes a webhook for ever.

use clap::Args;
use linkledger_core::id::WebhookId;
use reqwest::{Method, StatusCode};

use crate::{
    client::{ApiCall, ApiClient},
    output::note,
};

/// Options of `linkledger webhooks delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteWebhookOptions {
    /// Id of the webhook (whe_…).
    webhook: WebhookId,
}

pub(super) async fn run(client: &ApiClient, delete: &DeleteWebhookOptions) -> anyhow::Result<()> {
    let id = delete.webhook.to_string();
    let call = ApiCall::new(
        Method::DELETE,
        &["v1", "webhooks", &id],
        StatusCode::NO_CONTENT,
    );
    client.send(&call).await?;
    note(&format!("deleted {id}"));
    Ok(())
}
