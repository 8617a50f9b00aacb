//! `linkledger webhooks test`: sends a test message, and waits for its first attempt.

use std::time::{Duration, Instant};

use clap::Args;
use linkledger_core::id::WebhookId;
use reqwest::{Method, StatusCode};

use super::delivery::{DeliveryDocument, get_delivery, print_delivery};
use crate::{
    client::{ApiCall, ApiClient},
    output::Refused,
};

/// Longest wait for the first attempt: longer than the timeout of an attempt.
const ATTEMPT_WAIT_MAX: Duration = Duration::from_secs(25);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Options of `linkledger webhooks test`.
#[derive(Debug, Args)]
pub(crate) struct TestWebhookOptions {
    /// Id of the webhook (whe_…).
    webhook: WebhookId,
}

pub(super) async fn run(
    client: &ApiClient,
    test: &TestWebhookOptions,
    is_json: bool,
) -> anyhow::Result<()> {
    let id = test.webhook.to_string();
    let path = ["v1", "webhooks", &id, "test"];
    let call = ApiCall::unrepeatable(Method::POST, &path, StatusCode::ACCEPTED);
    let advice = format!(
        "The test may be on its way. Look with `linkledger webhooks deliveries {id}` before you repeat \
         the command: it sends another test."
    );
    let answer = client.send(&call).await;
    let answer = answer.map_err(|failure| failure.advise_if_unknown(&advice))?;
    let queued: DeliveryDocument = client.read(&call, &answer)?;
    let call = get_delivery(test.webhook, queued.id);
    let begun = Instant::now();
    loop {
        let answer = client.send(&call).await?;
        let delivery: DeliveryDocument = client.read(&call, &answer)?;
        let is_late = begun.elapsed() > ATTEMPT_WAIT_MAX;
        if !delivery.is_attempted() && !is_late {
            tokio::time::sleep(POLL_INTERVAL).await;
            continue;
        }
        print_delivery(client, &call, &answer, is_json)?;
        if delivery.is_delivered() {
            return Ok(());
        }
        let failure = if delivery.is_attempted() {
            format!("the test is not delivered: {}", delivery.result())
        } else {
            not_sent(&id)
        };
        return Err(Refused(failure).into());
    }
}

/// Returns the error for a test that no attempt was made for.
fn not_sent(webhook_id: &str) -> String {
    format!(
        "the test was not sent yet, and still waits; `linkledger webhooks get {webhook_id}` shows whether messages are \
         blocked"
    )
}
