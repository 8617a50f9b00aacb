//! Deliveries with a schedule of their own: messages that were refused, retries by request, and tests. They never make
//! a receiver ill, and the cursor does not wait for them.

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use linkledger_core::{
    shard::{Position, Shard},
    webhook::{AttemptOutcome, Audience, MessageType, Webhook, message_body},
};
use linkledger_event_store::{
    errors::is_of_stored_data,
    log::{self, feed::FeedPlace},
    time_limit::{ANSWER_TIME_MAX, within},
    webhooks::deliveries::{self, StoredDelivery},
};
use serde_json::json;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

use super::{
    Dispatch,
    attempt::{Attempt, SentMessage, Signer},
    health::{jitter, next_record},
    page::{self, PagePlace, message_about},
};

/// Maximum number of due deliveries that are sent before a page, all at once.
const DUE_MAX: i64 = 8;

/// Webhook whose due deliveries are sent.
#[derive(Clone, Copy)]
pub(super) struct WebhookToSend<'a> {
    pub(super) dispatch: &'a Dispatch,
    pub(super) webhook: &'a Webhook,
    pub(super) signer: &'a Signer,
    /// True if the receiver is ill: it gets one request at a time.
    pub(super) is_ill: bool,
    pub(super) stop: &'a CancellationToken,
}

/// Results of the due deliveries.
#[derive(Debug, Default)]
pub(super) struct DueReport {
    /// Number of deliveries that were due, up to the limit.
    pub(super) found: usize,
    /// Number of attempts.
    pub(super) attempts: usize,
    /// True if further deliveries may be due.
    pub(super) has_more: bool,
    /// Time of the last accepted message.
    pub(super) accepted_at: Option<OffsetDateTime>,
    /// True if the receiver wants no more messages.
    pub(super) is_gone: bool,
}

/// Sends the first deliveries that are due, all at once, and stores each outcome at once.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn send_due(of: WebhookToSend<'_>) -> sqlx::Result<DueReport> {
    let limit = if of.is_ill { 1 } else { DUE_MAX };
    let now = of.dispatch.clock.now();
    let reading = deliveries::due(&of.dispatch.pool, of.webhook.webhook_id, now, limit);
    let due = within(ANSWER_TIME_MAX, reading).await?;
    let mut report = DueReport {
        found: due.len(),
        has_more: i64::try_from(due.len()).is_ok_and(|found| found >= limit),
        ..DueReport::default()
    };
    let mut in_flight = FuturesUnordered::<BoxFuture<'_, sqlx::Result<Option<Attempt>>>>::new();
    for delivery in &due {
        in_flight.push(Box::pin(send_one(of, delivery)));
    }
    let mut failure = None;
    // All are awaited, also after a failure: what is sent must be stored.
    while let Some(sent) = in_flight.next().await {
        match sent {
            Ok(Some(attempt)) => report.add(&attempt),
            Ok(None) => {}
            Err(error) => failure = Some(error),
        }
    }
    failure.map_or(Ok(report), Err)
}

impl DueReport {
    fn add(&mut self, attempt: &Attempt) {
        self.attempts += 1;
        match attempt.outcome {
            AttemptOutcome::Accepted => self.accepted_at = Some(attempt.at),
            AttemptOutcome::Gone => self.is_gone = true,
            AttemptOutcome::Refused | AttemptOutcome::Ill { .. } => {}
        }
    }
}

/// Makes one attempt. Returns `None` if the dispatcher stops.
async fn send_one(
    of: WebhookToSend<'_>,
    delivery: &StoredDelivery,
) -> sqlx::Result<Option<Attempt>> {
    let dispatch = of.dispatch;
    let body = body_of(dispatch, of.webhook, delivery).await?;
    let attempt = match body {
        Ok(body) => {
            let id = delivery.event_id.to_string();
            let message = SentMessage {
                id: &id,
                body: &body,
            };
            let attempt = dispatch.attempt(of.webhook, of.signer, message, of.stop);
            attempt.await
        }
        Err(reason) => Some(Attempt::without_answer(dispatch.clock.now(), reason)),
    };
    if let Some(attempt) = &attempt {
        let record = next_record(delivery, attempt, of.is_ill, jitter());
        let store = || deliveries::store_attempt(&dispatch.pool, delivery, &record);
        dispatch.store(delivery.webhook_id, of.stop, store).await?;
    }
    Ok(attempt)
}

/// Returns the body of a delivery, or the reason why there is none.
async fn body_of(
    dispatch: &Dispatch,
    webhook: &Webhook,
    delivery: &StoredDelivery,
) -> sqlx::Result<Result<String, String>> {
    if let Some((shard, position)) = delivery.shard.zip(delivery.position) {
        let audience = page::audience(webhook);
        return body_of_event(dispatch, delivery, (shard, position), audience).await;
    }
    let data = json!({"webhook_id": webhook.webhook_id});
    Ok(Ok(message_body(
        MessageType::Test,
        delivery.created_at,
        &data,
    )))
}

async fn body_of_event(
    dispatch: &Dispatch,
    delivery: &StoredDelivery,
    (shard, position): (Shard, Position),
    audience: Audience,
) -> sqlx::Result<Result<String, String>> {
    let is_creation = delivery.message_type == MessageType::LinkCreated.name();
    // A neighbour that is no charge is not read: perhaps it is damaged.
    let places = [position, position + 1];
    let places = &places[..=usize::from(is_creation)];
    let reading = log::read_at(&dispatch.pool, shard, places);
    let events = match within(ANSWER_TIME_MAX, reading).await {
        Err(error) if is_of_stored_data(&error) => {
            return Ok(Err(format!("the event cannot be read: {error}")));
        }
        events => events?,
    };
    let event = events
        .first()
        .filter(|event| event.event_id == delivery.event_id);
    let Some(event) = event else {
        return Ok(Err("the log has no such event".to_owned()));
    };
    let charge = events.get(1).filter(|it| page::is_charge_of(it, event));
    let message = message_about(event, charge, audience, PagePlace::at(FeedPlace::BEGINNING));
    Ok(match message {
        Ok(Some(message)) => Ok(message.body),
        Ok(None) => Err("there are no messages about events of the type".to_owned()),
        Err(error) => Err(format!("the event cannot be read: {error}")),
    })
}
