//! `linkledger webhooks deliveries`: lists the deliveries of a webhook, or shows one.

use clap::{Args, ValueEnum};
use linkledger_core::id::{DeliveryId, WebhookId};

use super::delivery::{DeliveryDocument, get_delivery, print_delivery};
use crate::{
    clicks::name,
    client::{ApiCall, ApiClient},
    paging::PagingOptions,
};

/// Options of `linkledger webhooks deliveries`.
#[derive(Debug, Args)]
pub(crate) struct DeliveriesOptions {
    /// Id of the webhook (whe_…).
    webhook: WebhookId,
    /// Id of one delivery (dlv_…): show it with the answer of the receiver.
    delivery: Option<DeliveryId>,
    /// List only deliveries in this state.
    #[arg(long, conflicts_with = "delivery")]
    state: Option<ListedState>,
    #[command(flatten)]
    paging: PagingOptions,
}

/// Value of `--state`, by the names of the API.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ListedState {
    /// Refused before, and retried.
    Waiting,
    /// Refused at each attempt; sent only by `webhooks retry`.
    Failed,
    Delivered,
}

pub(super) async fn run(
    client: &ApiClient,
    deliveries: &DeliveriesOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    if let Some(delivery_id) = deliveries.delivery {
        let call = get_delivery(deliveries.webhook, delivery_id);
        let answer = client.send(&call).await?;
        return print_delivery(client, &call, &answer, is_json);
    }
    let webhook_id = deliveries.webhook.to_string();
    let call = ApiCall::get(&["v1", "webhooks", &webhook_id, "deliveries"])
        .query("state", deliveries.state.as_ref().and_then(name));
    let paging = &deliveries.paging;
    paging
        .print::<DeliveryDocument>(client, call, is_json)
        .await
}
