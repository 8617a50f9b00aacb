//! Reads and writes of the task of a webhook, each with a timeout.

use std::sync::atomic::Ordering;

use linkledger_core::{
    shard::Position,
    webhook::{DeliveryState, DisabledReason, Webhook},
};
use linkledger_event_store::{
    log::{self, PerShard, ReadFrom, feed},
    time_limit::{ANSWER_TIME_MAX, within},
    webhooks::{
        cursors::{self, Cursor},
        deliveries::{self, TRIMMED_MAX},
        dispatcher,
        rows::{self, WebhookHealth},
    },
};
use linkledger_service::fail_point;

use super::{Endpoint, Turn};
use crate::webhooks::{health::without_failure, page::EventsRead};

/// Numbers of the newest deliveries that are kept.
const KEPT: [(DeliveryState, i64); 2] = [
    (DeliveryState::Delivered, 100),
    (DeliveryState::Failed, 1_000),
];
/// Number of new records after which older ones are deleted.
pub(super) const RECORDS_PER_TRIM: usize = 100;

impl Endpoint {
    pub(super) async fn enabled_webhook(&self) -> sqlx::Result<Option<(Webhook, WebhookHealth)>> {
        let (pool, account_id) = (&self.dispatch.pool, self.of.account_id);
        let stored = in_time(rows::get_to_send(pool, self.of.webhook_id, account_id));
        Ok(stored.await?.filter(|(webhook, _)| webhook.enabled))
    }

    pub(super) async fn cursors(&self) -> sqlx::Result<Vec<Cursor>> {
        let reading = cursors::cursors(&self.dispatch.pool, self.of.webhook_id);
        in_time(reading).await
    }

    /// Reads the heads of all shards, for a webhook that receives the events of all accounts.
    pub(super) async fn heads(&self) -> sqlx::Result<Option<PerShard<Position>>> {
        if !self.of.all_accounts {
            return Ok(None);
        }
        let reading = log::heads(&self.dispatch.pool);
        in_time(reading).await.map(Some)
    }

    pub(super) async fn events_after(
        &self,
        cursor: &Cursor,
        heads: Option<&PerShard<Position>>,
        events_max: usize,
    ) -> sqlx::Result<EventsRead> {
        let pool = &self.dispatch.pool;
        let limit = i64::try_from(events_max).unwrap_or(i64::MAX);
        let Some(heads) = heads else {
            let reading = feed::read_page(pool, self.of.account_id, cursor.place, limit);
            let page = in_time(reading).await?;
            return Ok(EventsRead {
                events: page.events,
                has_more: page.has_more,
            });
        };
        let from = ReadFrom {
            shard: cursor.shard,
            after: cursor.place.position,
        };
        let events = in_time(log::read_readable_after(pool, from, limit)).await?;
        let last = events.last().map_or(from.after, |event| event.position);
        Ok(EventsRead {
            has_more: events.len() >= events_max || last < heads[cursor.shard.index()],
            events,
        })
    }

    pub(super) async fn store_health(
        &self,
        webhook: &Webhook,
        health: &WebhookHealth,
    ) -> sqlx::Result<()> {
        let (pool, webhook_id) = (&self.dispatch.pool, webhook.webhook_id);
        let storing = deliveries::store_health(pool, webhook_id, webhook.updated_at, health);
        in_time(storing).await
    }

    /// Ends an illness without a success: no message waits any more, such as after a change of the types.
    pub(super) async fn forget_illness(&self) -> sqlx::Result<()> {
        match self.enabled_webhook().await? {
            // Ended by the probe otherwise.
            Some((webhook, health)) if health.ill_since.is_some() => {
                self.store_health(&webhook, &without_failure(health)).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Stores that an operator must act, or need not any more.
    pub(super) async fn store_blocked(
        &self,
        before: &WebhookHealth,
        reason: Option<&str>,
    ) -> sqlx::Result<()> {
        self.signals.set_blocked(reason.is_some());
        let stored = before.blocked_since.and(before.last_error.as_deref());
        if (before.blocked_since.is_some(), stored) == (reason.is_some(), reason) {
            return Ok(());
        }
        let (now, webhook_id) = (self.dispatch.clock.now(), self.of.webhook_id);
        let storing = deliveries::store_blocked(&self.dispatch.pool, webhook_id, now, reason);
        in_time(storing).await
    }

    /// Disables the webhook, unless it has changed since it was read.
    pub(super) async fn disable(
        &self,
        webhook: &Webhook,
        reason: DisabledReason,
    ) -> sqlx::Result<Turn> {
        let (now, webhook_id) = (self.dispatch.clock.now(), webhook.webhook_id);
        let disabling = dispatcher::disable(&self.dispatch.pool, now, webhook, reason);
        if !Box::pin(in_time(disabling)).await? {
            return Ok(Turn::Again);
        }
        tracing::info!(webhook.id = %webhook_id, reason = reason.name(), "disabled a webhook");
        Ok(Turn::Ended)
    }

    /// Tells operators that nothing was accepted for some hours, unless the webhook has changed since it was read.
    pub(super) async fn notify_failing(&self, webhook: &Webhook, hours: i16) -> sqlx::Result<()> {
        fail_point::reached("webhooks.before_notice");
        let (now, webhook_id) = (self.dispatch.clock.now(), webhook.webhook_id);
        let notifying = dispatcher::notify_failing(&self.dispatch.pool, now, webhook, hours);
        if Box::pin(in_time(notifying)).await? {
            tracing::info!(webhook.id = %webhook_id, hours, "a webhook fails; told operators");
        }
        fail_point::reached("webhooks.notified");
        Ok(())
    }

    /// Makes deliveries due whose schedule is of a clock that was ahead.
    pub(super) async fn reschedule(&self) -> sqlx::Result<()> {
        let (pool, now) = (&self.dispatch.pool, self.dispatch.clock.now());
        let rescheduling = deliveries::reschedule_future(pool, self.of.webhook_id, now);
        in_time(rescheduling).await
    }

    /// Deletes deliveries but the newest, after enough new ones. A failure only leaves more of them until the next
    /// time.
    pub(super) async fn trim(&self) {
        if self.untrimmed.load(Ordering::Relaxed) < RECORDS_PER_TRIM {
            return;
        }
        self.untrimmed.store(0, Ordering::Relaxed);
        for (state, kept) in KEPT {
            let (pool, webhook_id) = (&self.dispatch.pool, self.of.webhook_id);
            let trimming = deliveries::trim(pool, webhook_id, state, kept);
            match in_time(trimming).await {
                Ok(trimmed) if trimmed < TRIMMED_MAX => {}
                // The next record deletes more.
                Ok(_) => self.untrimmed.store(RECORDS_PER_TRIM, Ordering::Relaxed),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(webhook.id = %webhook_id, error, "cannot delete old deliveries");
                }
            }
        }
    }
}

async fn in_time<T>(work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    within(ANSWER_TIME_MAX, work).await
}
