//! `linkledger webhooks retry`: retries one delivery at once.

use clap::Args;
use linkledger_core::id::{DeliveryId, WebhookId};
use reqwest::{Method, StatusCode};

use super::delivery::print_delivery;
use crate::client::{ApiCall, ApiClient};

/// Options of `linkledger webhooks retry`.
#[derive(Debug, Args)]
pub(crate) struct RetryDeliveryOptions {
    /// Id of the webhook (whe_…).
    webhook: WebhookId,
    /// Id of the delivery (dlv_…).
    delivery: DeliveryId,
}

pub(super) async fn run(
    client: &ApiClient,
    retry: &RetryDeliveryOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let (webhook_id, delivery_id) = (retry.webhook.to_string(), retry.delivery.to_string());
    let path = [
        "v1",
        "webhooks",
        &webhook_id,
        "deliveries",
        &delivery_id,
        "retry",
    ];
    let call = ApiCall::new(Method::POST, &path, StatusCode::ACCEPTED);
    let answer = client.send(&call).await?;
    print_delivery(client, &call, &answer, is_json)
}
