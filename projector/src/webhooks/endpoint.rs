//! The task of one webhook: turns of due deliveries and of one page of each cursor. It keeps nothing of the webhook in
//! memory between turns, so that a change takes effect with the next one.

mod storage;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use linkledger_core::{
    shard::Position,
    webhook::{DisabledReason, Webhook},
};
use linkledger_event_store::{
    errors::is_of_stored_data,
    log::PerShard,
    webhooks::{
        cursors::Cursor,
        rows::{EnabledWebhook, WebhookHealth},
    },
};
use linkledger_service::fail_point;
use time::OffsetDateTime;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use self::storage::RECORDS_PER_TRIM;
use super::{
    Dispatch,
    attempt::Signer,
    delivery::{PageToSend, send_page},
    due::{WebhookToSend, send_due},
    health::{due_notice, is_given_up, is_worth_storing, recovered, waits_until},
    page::{ITEMS_MAX, Page, events_max},
};

/// Longest time without a turn while the receiver is healthy.
const IDLE_TIME_MAX: Duration = Duration::from_secs(30);
/// Time after the first new event in which further ones gather for the same page.
const GATHER_TIME: Duration = Duration::from_millis(50);
/// Interval at which the clock is read while a probe is awaited: it may be set.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Pause after a turn that the database has failed.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Longest time before an event that cannot be read is read again.
const UNREADABLE_DELAY: Duration = Duration::from_secs(5);

/// The task of one webhook.
pub(super) struct Endpoint {
    dispatch: Arc<Dispatch>,
    of: EnabledWebhook,
    signals: Signals,
    /// Records since older ones were last deleted.
    untrimmed: AtomicUsize,
    /// Maximum number of messages of a request that the receiver can bear, as far as is known. A task that begins anew
    /// learns it again.
    items_max: AtomicUsize,
}

/// Signals between the task of a webhook and the supervisor.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// The task finishes the messages in flight and ends.
    pub(super) stop: CancellationToken,
    /// The task has a delivery that is due.
    pub(super) wake: Arc<Notify>,
    state: Arc<State>,
}

/// State of a webhook, for metrics.
#[derive(Default)]
struct State {
    is_ill: AtomicBool,
    is_blocked: AtomicBool,
}

impl Signals {
    /// Returns true while the receiver is ill.
    pub(super) fn is_ill(&self) -> bool {
        self.state.is_ill.load(Ordering::Relaxed)
    }

    /// Returns true while an operator must act.
    pub(super) fn is_blocked(&self) -> bool {
        self.state.is_blocked.load(Ordering::Relaxed)
    }

    fn set_ill(&self, health: &WebhookHealth) {
        let is_ill = health.ill_since.is_some();
        self.state.is_ill.store(is_ill, Ordering::Relaxed);
    }

    fn set_blocked(&self, is_blocked: bool) {
        self.state.is_blocked.store(is_blocked, Ordering::Relaxed);
    }
}

/// End of a turn, and of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Turn {
    /// The webhook is disabled or deleted.
    Ended,
    /// There may be further messages.
    Again,
    /// No message waits.
    Idle,
    /// The receiver is ill; the next probe is due at this time.
    Ill(OffsetDateTime),
    /// An operator must act; the reason.
    Blocked(String),
}

impl Endpoint {
    pub(super) fn new(dispatch: Arc<Dispatch>, of: EnabledWebhook, signals: Signals) -> Self {
        Self {
            dispatch,
            of,
            signals,
            // The first record deletes what an earlier process has left.
            untrimmed: AtomicUsize::new(RECORDS_PER_TRIM - 1),
            items_max: AtomicUsize::new(ITEMS_MAX),
        }
    }

    /// Sends messages until the webhook is disabled or deleted, or the task is told to stop. Returns the webhook.
    pub(super) async fn run(self) -> EnabledWebhook {
        let mut activity = if self.of.all_accounts {
            self.dispatch.activity.of_all()
        } else {
            self.dispatch.activity.of(self.of.account_id)
        };
        let (mut trouble, mut is_rescheduled) = (None, false);
        while !self.signals.stop.is_cancelled() {
            // Before the reads, so that no event is missed after them.
            activity.mark_unchanged();
            let turn = self.turn(&mut is_rescheduled).await;
            self.log_trouble(&turn, &mut trouble);
            match turn {
                Ok(Turn::Ended) => break,
                // Without the lease, nothing is sent.
                Ok(Turn::Again) if !self.dispatch.lease.is_valid() => self.pause(RETRY_DELAY).await,
                Ok(Turn::Again) => {}
                Ok(Turn::Idle) => self.wait_for_events(&mut activity, IDLE_TIME_MAX).await,
                Ok(Turn::Ill(until)) => self.wait_for_probe(until).await,
                Ok(Turn::Blocked(_)) => self.wait_for_events(&mut activity, UNREADABLE_DELAY).await,
                Err(_) => self.pause(RETRY_DELAY).await,
            }
        }
        self.of
    }

    /// Logs why the messages wait, once for each reason.
    fn log_trouble(&self, turn: &sqlx::Result<Turn>, before: &mut Option<String>) {
        let trouble = match turn {
            Ok(Turn::Blocked(reason)) => Some(reason.clone()),
            Err(error) => Some(error.to_string()),
            Ok(Turn::Again) => return,
            Ok(Turn::Ended | Turn::Idle | Turn::Ill(_)) => None,
        };
        if let Some(error) = &trouble
            && trouble != *before
        {
            let webhook_id = self.of.webhook_id;
            tracing::warn!(webhook.id = %webhook_id, error, "the messages of a webhook wait; retrying");
        }
        *before = trouble;
    }

    /// Sends messages, and deletes old deliveries. The first turn mends the schedule.
    async fn turn(&self, is_rescheduled: &mut bool) -> sqlx::Result<Turn> {
        if !*is_rescheduled {
            self.reschedule().await?;
            *is_rescheduled = true;
        }
        let turn = self.send().await;
        self.trim().await;
        turn
    }

    /// Sends the due deliveries and one page of each cursor.
    async fn send(&self) -> sqlx::Result<Turn> {
        let Some((webhook, mut health)) = self.enabled_webhook().await? else {
            return Ok(Turn::Ended);
        };
        self.signals.set_ill(&health);
        let Some(signer) = Signer::of(&webhook, &self.dispatch.keys) else {
            let reason = unknown_key(&webhook);
            self.store_blocked(&health, Some(&reason)).await?;
            return Ok(Turn::Blocked(reason));
        };
        let due = send_due(WebhookToSend {
            dispatch: &self.dispatch,
            webhook: &webhook,
            signer: &signer,
            is_ill: health.ill_since.is_some(),
            stop: &self.signals.stop,
        })
        .await?;
        self.untrimmed.fetch_add(due.found, Ordering::Relaxed);
        if due.is_gone {
            return self.disable(&webhook, DisabledReason::Gone).await;
        }
        if let Some(accepted_at) = due.accepted_at {
            let after = recovered(&health, accepted_at);
            if is_worth_storing(&health, &after) {
                self.store_health(&webhook, &after).await?;
                health = after;
            }
        } else if due.attempts > 0 {
            // Without new events no page tells that nothing is accepted.
            self.notify_if_due(&webhook, &health).await?;
        }
        let turn = self.turn_of_cursors(&health, events_max(&webhook)).await?;
        Ok(match turn {
            Turn::Idle | Turn::Ill(_) if due.has_more => Turn::Again,
            Turn::Ended | Turn::Again | Turn::Idle | Turn::Ill(_) | Turn::Blocked(_) => turn,
        })
    }

    /// Sends one page of each cursor; of a receiver that is ill, the first message alone once a probe is due.
    async fn turn_of_cursors(
        &self,
        health: &WebhookHealth,
        events_max: usize,
    ) -> sqlx::Result<Turn> {
        self.signals.set_ill(health);
        if let Some(until) = waits_until(health, self.dispatch.clock.now()) {
            return Ok(Turn::Ill(until));
        }
        let (mut has_more, mut blocked, mut end) = (false, None, None);
        let heads = self.heads().await?;
        for cursor in self.cursors().await? {
            if is_at_head(&cursor, heads.as_ref()) {
                continue;
            }
            let turn = self.turn_of_cursor(&cursor, heads.as_ref(), events_max);
            match turn.await? {
                Turn::Idle => {}
                Turn::Again => has_more = true,
                // The other shards must not wait for the operator.
                Turn::Blocked(reason) => blocked = Some(reason),
                turn @ (Turn::Ended | Turn::Ill(_)) => {
                    end = Some(turn);
                    break;
                }
            }
        }
        self.store_blocked(health, blocked.as_deref()).await?;
        if has_more && end.is_none() {
            return Ok(Turn::Again);
        }
        if let Some(turn) = end.or(blocked.map(Turn::Blocked)) {
            return Ok(turn);
        }
        if health.ill_since.is_some() {
            self.forget_illness().await?;
        }
        Ok(Turn::Idle)
    }

    /// Sends a page of a cursor, of at most `events_max` events.
    async fn turn_of_cursor(
        &self,
        cursor: &Cursor,
        heads: Option<&PerShard<Position>>,
        events_max: usize,
    ) -> sqlx::Result<Turn> {
        let events = match self.events_after(cursor, heads, events_max).await {
            Err(error) if is_of_stored_data(&error) => {
                return Ok(Turn::Blocked(error.to_string()));
            }
            events => events?,
        };
        fail_point::reached("webhooks.events_read");
        // After the events: one that follows a change of the types must never be chosen by the types before.
        let Some((webhook, health)) = self.enabled_webhook().await? else {
            return Ok(Turn::Ended);
        };
        let Some(signer) = Signer::of(&webhook, &self.dispatch.keys) else {
            return Ok(Turn::Blocked(unknown_key(&webhook)));
        };
        let page = Page::of(events, cursor, &webhook);
        let is_probe = health.ill_since.is_some();
        let allowance = if is_probe { 1 } else { page.messages.len() };
        let of = PageToSend {
            dispatch: &self.dispatch,
            webhook: &webhook,
            health: &health,
            signer: &signer,
            cursor,
            page: &page,
            items_max: &self.items_max,
            stop: &self.signals.stop,
        };
        let Some(sent) = send_page(of, allowance).await? else {
            return Ok(Turn::Again);
        };
        self.untrimmed.fetch_add(sent.records, Ordering::Relaxed);
        if sent.is_gone {
            return self.disable(&webhook, DisabledReason::Gone).await;
        }
        if let Some(health) = sent.health {
            self.signals.set_ill(&health);
            let now = self.dispatch.clock.now();
            if is_given_up(&health, now) {
                return self.disable(&webhook, DisabledReason::Unreachable).await;
            }
            self.notify_if_due(&webhook, &health).await?;
            if health.ill_since.is_some() {
                return Ok(Turn::Ill(health.next_probe_at.unwrap_or(now)));
            }
        }
        Ok(after_page(page, sent.is_whole))
    }

    /// Tells operators that nothing is accepted, if they are to know.
    async fn notify_if_due(&self, webhook: &Webhook, health: &WebhookHealth) -> sqlx::Result<()> {
        match due_notice(health, self.dispatch.clock.now()) {
            Some(hours) => self.notify_failing(webhook, hours).await,
            None => Ok(()),
        }
    }

    async fn pause(&self, time: Duration) {
        timeout(time, self.signals.stop.cancelled()).await.ok();
    }

    /// Waits for events of the account, or for a delivery that is due.
    async fn wait_for_events(&self, activity: &mut watch::Receiver<()>, time_max: Duration) {
        tokio::select! {
            Ok(()) = activity.changed() => self.pause(GATHER_TIME).await,
            () = self.signals.wake.notified() => {}
            () = self.signals.stop.cancelled() => {}
            () = sleep(time_max) => {}
        }
    }

    /// Waits for the next probe, or for a delivery that is due. Events cannot shorten the wait.
    async fn wait_for_probe(&self, until: OffsetDateTime) {
        let give_up_at = Instant::now() + IDLE_TIME_MAX;
        while Instant::now() < give_up_at {
            let rest = Duration::try_from(until - self.dispatch.clock.now()).unwrap_or_default();
            if rest.is_zero() {
                return;
            }
            tokio::select! {
                () = self.signals.wake.notified() => return,
                () = self.signals.stop.cancelled() => return,
                () = sleep(rest.min(CLOCK_INTERVAL)) => {}
            }
        }
    }
}

/// Returns true if a live cursor of all accounts has no events after it.
fn is_at_head(cursor: &Cursor, heads: Option<&PerShard<Position>>) -> bool {
    !cursor.is_replay
        && heads.is_some_and(|heads| cursor.place.position >= heads[cursor.shard.index()])
}

fn unknown_key(webhook: &Webhook) -> String {
    let key_id = &webhook.secret.master_key_id;
    format!(
        "the dispatcher's file of master keys (WEBHOOK_KEYS_FILE) has no key `{key_id}`; rotate the secret, or add it"
    )
}

/// Returns the end of a page that was sent without an illness.
fn after_page(page: Page, is_whole: bool) -> Turn {
    if page.has_more || !is_whole {
        return Turn::Again;
    }
    page.unreadable.map_or(Turn::Idle, Turn::Blocked)
}

#[cfg(test)]
mod tests {
    use linkledger_core::shard::Shard;
    use linkledger_event_store::log::feed::FeedPlace;

    use super::*;

    #[test]
    fn only_live_cursors_rest_at_the_head() {
        let mut heads = PerShard::<Position>::default();
        let shard = Shard::all().nth(3).unwrap();
        heads[shard.index()] = 7;
        let cursor = |is_replay, position| Cursor {
            shard,
            is_replay,
            place: FeedPlace {
                position,
                version: 0,
            },
            until: is_replay.then_some(7),
        };
        assert!(is_at_head(&cursor(false, 7), Some(&heads)));
        assert!(!is_at_head(&cursor(false, 6), Some(&heads)));
        assert!(!is_at_head(&cursor(true, 7), Some(&heads)));
        assert!(!is_at_head(&cursor(false, 7), None));
    }
}
