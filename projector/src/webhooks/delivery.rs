//! Sends the messages of a page, and stores how far it got while further messages are in flight.

use std::{
    future::pending,
    mem,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use linkledger_core::webhook::{AttemptOutcome, DELIVERIES_WAITING_MAX, Webhook};
use linkledger_event_store::{
    time_limit::{ANSWER_TIME_MAX, within},
    webhooks::{
        cursors::Cursor,
        deliveries::{self, DeliveryRecord, Progress, ProgressOutcome, SeenHealth},
        rows::WebhookHealth,
    },
};
use linkledger_service::{fail_point, metrics::WEBHOOK_DELIVERY_LAG_SECONDS};
use metrics::histogram;
use tokio_util::sync::CancellationToken;

use super::{
    Dispatch,
    attempt::{Attempt, SentMessage, Signer},
    health::{PageReport, first_record, health_after, is_worth_storing, jitter},
    page::{
        Message, Page, PagePlace, PageProgress, body_of, borne_after_illness, borne_after_success,
        items_max, request_id, window,
    },
};

/// Webhook and page of a delivery.
#[derive(Clone, Copy)]
pub(super) struct PageToSend<'a> {
    pub(super) dispatch: &'a Dispatch,
    pub(super) webhook: &'a Webhook,
    pub(super) health: &'a WebhookHealth,
    pub(super) signer: &'a Signer,
    pub(super) cursor: &'a Cursor,
    pub(super) page: &'a Page,
    /// Maximum number of messages of a request that the receiver can bear, as far as is known.
    pub(super) items_max: &'a AtomicUsize,
    /// Cancelled when no more messages are to be sent.
    pub(super) stop: &'a CancellationToken,
}

/// A running delivery of a page.
struct PageDelivery<'a> {
    of: PageToSend<'a>,
    progress: PageProgress,
    /// Maximum number of messages of a request of this page: one after a request with several was refused.
    items_max: usize,
    report: PageReport,
    /// Records that are not stored yet. One that is beyond the finished messages waits for those before: the cursor is
    /// stored with it, and would otherwise not tell after a restore whether it is there.
    unsaved: Vec<DeliveryRecord>,
    /// Number of records that were stored.
    records: usize,
    /// Number of waiting deliveries, with those of this page; counted at the first refusal.
    waiting: Option<i64>,
    /// Place that is stored, or that the running store stores.
    place: PagePlace,
    /// Result of the last store.
    stored: sqlx::Result<ProgressOutcome>,
    /// Cancelled when no more messages are handed out.
    closed: CancellationToken,
}

/// Result of the delivery of a page.
pub(super) struct Delivered {
    /// Health of the receiver; `None` if no message was attempted.
    pub(super) health: Option<WebhookHealth>,
    /// True if the receiver wants no more messages.
    pub(super) is_gone: bool,
    /// Number of records that were stored.
    pub(super) records: usize,
    /// True if all messages of the page are finished.
    pub(super) is_whole: bool,
}

/// Progress and records that one store writes.
struct PageStore<'a> {
    of: PageToSend<'a>,
    place_before: PagePlace,
    place: PagePlace,
    is_ended: bool,
    records: Vec<DeliveryRecord>,
    health: Option<SeenHealth>,
}

type Storing<'a> = Option<BoxFuture<'a, sqlx::Result<ProgressOutcome>>>;
/// Requests in flight, each with the indices of its messages.
type InFlight<'a> = FuturesUnordered<BoxFuture<'a, (Range<usize>, Option<Attempt>)>>;

/// Sends the messages of a page, at most `allowance`, and moves the cursor. Stops handing out when `stop` is cancelled,
/// the lease is lost, or the receiver is ill or gone; then waits for the messages in flight. Returns `None` if the
/// progress is superseded: cursor and events must be read anew.
///
/// # Errors
/// Returns an error if the database fails and the dispatcher stops.
pub(super) async fn send_page(
    of: PageToSend<'_>,
    allowance: usize,
) -> sqlx::Result<Option<Delivered>> {
    let delivery = PageDelivery {
        progress: PageProgress::new(of.page.messages.len(), window(of.webhook), allowance),
        items_max: items_max(of.webhook, of.items_max.load(Ordering::Relaxed)),
        report: PageReport::default(),
        unsaved: Vec::new(),
        records: 0,
        waiting: None,
        place: PagePlace::at(of.cursor.place),
        stored: Ok(ProgressOutcome::Stored),
        closed: of.stop.child_token(),
        of,
    };
    delivery.run().await
}

impl<'a> PageDelivery<'a> {
    async fn run(mut self) -> sqlx::Result<Option<Delivered>> {
        let mut in_flight = InFlight::new();
        let mut storing: Storing<'a> = None;
        loop {
            self.hand_out(&in_flight);
            if in_flight.is_empty() {
                break;
            }
            if storing.is_none() {
                storing = self.store();
            }
            tokio::select! {
                Some((items, attempt)) = in_flight.next() => self.record(items, attempt).await,
                stored = finished(&mut storing) => self.take_stored(stored),
            }
        }
        if storing.is_some() {
            let stored = finished(&mut storing).await;
            self.take_stored(stored);
        }
        let before = self.of.health;
        let now = self.of.dispatch.clock.now();
        let health = health_after(before, &self.report, now, jitter());
        let changed = health.as_ref().filter(|it| is_worth_storing(before, it));
        if let Some(storing) = self.last_store(changed) {
            let stored = storing.await;
            self.take_stored(stored);
        }
        let delivered = Delivered {
            health,
            is_gone: self.report.is_gone,
            records: self.records,
            is_whole: self.progress.finished_prefix() == self.of.page.messages.len(),
        };
        Ok(match self.stored? {
            ProgressOutcome::Stored => Some(delivered),
            ProgressOutcome::Superseded => None,
        })
    }

    fn hand_out(&mut self, in_flight: &InFlight<'a>) {
        let dispatch = self.of.dispatch;
        while dispatch.lease.is_valid()
            && !self.closed.is_cancelled()
            && let Some(items) = self.next_items()
        {
            let (of, closed) = (self.of, self.closed.clone());
            let attempt = async move {
                let messages = &of.page.messages[items.clone()];
                let id = request_id(messages);
                let body = body_of(messages, of.webhook.in_order);
                let sent = SentMessage {
                    id: &id,
                    body: &body,
                };
                let attempt = dispatch.attempt(of.webhook, of.signer, sent, &closed);
                (items, attempt.await)
            };
            in_flight.push(Box::pin(attempt));
        }
    }

    /// Hands out the messages of the next request.
    fn next_items(&mut self) -> Option<Range<usize>> {
        let (page, items_max) = (self.of.page, self.items_max);
        self.progress
            .hand_out(|first| page.items_from(first, items_max))
    }

    async fn record(&mut self, items: Range<usize>, attempt: Option<Attempt>) {
        let Some(attempt) = attempt else {
            self.close(items);
            return;
        };
        if attempt.outcome == AttemptOutcome::Refused && items.len() > 1 {
            self.send_alone(items, attempt);
            return;
        }
        self.learn_items_max(items.len(), attempt.outcome);
        let page = self.of.page;
        let messages = &page.messages[items.clone()];
        let is_finished = match attempt.outcome {
            AttemptOutcome::Accepted => {
                if !self.of.cursor.is_replay {
                    for message in messages {
                        record_lag(message, &attempt);
                    }
                }
                self.report.accepted_at = Some(attempt.at);
                true
            }
            AttemptOutcome::Refused => self.keeps_refused().await,
            AttemptOutcome::Gone => {
                self.report.is_gone = true;
                false
            }
            AttemptOutcome::Ill { retry_after } => {
                self.report.fall_ill(retry_after);
                false
            }
        };
        if is_finished {
            let records = messages.iter();
            let records = records.map(|message| first_record(message, &attempt, jitter()));
            self.unsaved.extend(records);
            self.progress.finish(items);
        } else {
            self.close(items);
        }
        self.report.note(attempt, is_finished);
    }

    /// Learns how many messages of a request the receiver can bear, for the next pages. One that is too slow for many
    /// bears a probe, which has one, so that a probe tells nothing; nor does a request that has fewer than permitted.
    fn learn_items_max(&self, items: usize, outcome: AttemptOutcome) {
        let is_probe = self.of.health.ill_since.is_some();
        let is_full = items >= self.of.items_max.load(Ordering::Relaxed);
        let borne = match outcome {
            AttemptOutcome::Ill { .. } if items > 1 => borne_after_illness(items),
            AttemptOutcome::Accepted if is_full && !is_probe => borne_after_success(items),
            AttemptOutcome::Accepted
            | AttemptOutcome::Ill { .. }
            | AttemptOutcome::Refused
            | AttemptOutcome::Gone => return,
        };
        self.of.items_max.store(borne, Ordering::Relaxed);
    }

    /// Takes the messages of a refused request back. From then on each message of the page is sent alone, so that only
    /// those that are refused become waiting deliveries.
    fn send_alone(&mut self, items: Range<usize>, refused: Attempt) {
        self.items_max = 1;
        self.progress.take_back(items);
        self.report.note(refused, true);
    }

    /// Returns true if a refused message becomes a waiting delivery. With too many of them the receiver counts as ill,
    /// and the cursor waits.
    async fn keeps_refused(&mut self) -> bool {
        let waiting = match self.waiting {
            Some(waiting) => waiting,
            None => self.count_waiting().await,
        };
        let has_room = waiting < DELIVERIES_WAITING_MAX;
        self.waiting = Some(waiting + i64::from(has_room));
        if !has_room {
            self.report.fall_ill(None);
        }
        has_room
    }

    /// Counts the waiting deliveries. A database that does not answer stores none of this page either, so that none
    /// are counted then.
    async fn count_waiting(&self) -> i64 {
        let (pool, webhook_id) = (&self.of.dispatch.pool, self.of.webhook.webhook_id);
        let counting = deliveries::waiting_count(pool, webhook_id, DELIVERIES_WAITING_MAX);
        within(ANSWER_TIME_MAX, counting).await.unwrap_or_default()
    }

    fn close(&mut self, items: Range<usize>) {
        self.progress.give_up(items);
        self.closed.cancel();
    }

    /// Begins to store what is finished and not stored yet.
    fn store(&mut self) -> Storing<'a> {
        let place = self.of.page.place_after(self.progress.finished_prefix());
        if place == self.place {
            return None;
        }
        self.store_up_to(place, false, None)
    }

    /// Begins to store the rest at the end of the page: also the health, and the end of a replay.
    fn last_store(&mut self, health: Option<&WebhookHealth>) -> Storing<'a> {
        let finished = self.progress.finished_prefix();
        let place = self.of.page.place_after(finished);
        let is_ended = self.of.page.ends(self.of.cursor, finished);
        if place == self.place && !is_ended && health.is_none() {
            return None;
        }
        let health = health.map(|health| SeenHealth {
            health: health.clone(),
            updated_at: self.of.webhook.updated_at,
        });
        self.store_up_to(place, is_ended, health)
    }

    /// Begins to store everything up to a place, unless an earlier store has failed: the next one would leave a gap.
    fn store_up_to(
        &mut self,
        place: PagePlace,
        is_ended: bool,
        health: Option<SeenHealth>,
    ) -> Storing<'a> {
        if !matches!(self.stored, Ok(ProgressOutcome::Stored)) {
            return None;
        }
        let is_before = |record: &DeliveryRecord| {
            let position = record.position;
            position.is_some_and(|position| position <= place.place.position)
        };
        let unsaved = mem::take(&mut self.unsaved).into_iter();
        let (records, later): (Vec<_>, Vec<_>) = unsaved.partition(is_before);
        self.unsaved = later;
        self.records += records.len();
        let store = PageStore {
            of: self.of,
            place_before: mem::replace(&mut self.place, place),
            place,
            is_ended,
            records,
            health,
        };
        Some(Box::pin(store.run()))
    }

    /// After a store that has failed for good, or is superseded, no more messages are handed out.
    fn take_stored(&mut self, stored: sqlx::Result<ProgressOutcome>) {
        if !matches!(stored, Ok(ProgressOutcome::Stored)) {
            self.closed.cancel();
        }
        if matches!(stored, Ok(ProgressOutcome::Superseded)) {
            let webhook_id = self.of.webhook.webhook_id;
            tracing::info!(webhook.id = %webhook_id, "cursor or log have changed meanwhile; reading them anew");
        }
        self.stored = stored;
    }
}

impl PageStore<'_> {
    async fn run(self) -> sqlx::Result<ProgressOutcome> {
        fail_point::reached("webhooks.before_store");
        let PageToSend {
            dispatch,
            webhook,
            cursor,
            stop,
            ..
        } = self.of;
        let progress = Progress {
            webhook_id: webhook.webhook_id,
            cursor: &Cursor {
                place: self.place.place,
                ..*cursor
            },
            position_before: self.place_before.place.position,
            last_event: self.place.event_id,
            is_finished: self.is_ended,
            deliveries: &self.records,
            health: self.health.as_ref(),
        };
        let store = || Box::pin(deliveries::store_progress(&dispatch.pool, &progress));
        let stored = dispatch.store(webhook.webhook_id, stop, store).await;
        fail_point::reached("webhooks.stored");
        stored
    }
}

/// Waits for the running store; for ever if there is none.
async fn finished(storing: &mut Storing<'_>) -> sqlx::Result<ProgressOutcome> {
    let Some(running) = storing else {
        return pending().await;
    };
    let stored = running.await;
    *storing = None;
    stored
}

fn record_lag(message: &Message, attempt: &Attempt) {
    let lag = attempt.at - message.recorded_at;
    histogram!(WEBHOOK_DELIVERY_LAG_SECONDS).record(lag.as_seconds_f64().max(0.0));
}
