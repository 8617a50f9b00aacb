//! Lease of the dispatcher, in the event store: one process sends at a time. The lease only avoids that a message is
//! sent twice; a late write of a dispatcher without it does no harm.
//!
//! A dispatcher that cannot renew its lease hands nothing out, and keeps what it has: mostly the database is away for
//! a moment, and nobody else can acquire the lease.

use std::time::Duration;

use linkledger_event_store::{time_limit::within, webhooks::dispatcher};
use linkledger_service::metrics::WEBHOOK_DISPATCHER_IS_ACTIVE;
use metrics::gauge;
use sqlx::PgPool;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// Time after which a lease that was not renewed is free.
const EXPIRY: Duration = Duration::from_secs(3);
/// Interval of the renewals.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of asking for a lease that another process has.
const ACQUIRE_INTERVAL: Duration = Duration::from_millis(500);
/// Timeout of a renewal.
const RENEWAL_TIME_MAX: Duration = Duration::from_secs(1);

/// View of the lease of this process: the end of the lease, also after it; `None` if this process has never had it, or
/// another one has it.
#[derive(Debug, Clone)]
pub(super) struct Lease(watch::Receiver<Option<Instant>>);

/// Acquires and renews the lease.
pub(super) struct LeaseKeeper {
    pool: PgPool,
    owner: String,
    valid_until: watch::Sender<Option<Instant>>,
}

impl Lease {
    /// Returns true while this process has the lease. A process that was frozen for longer than the lease lasts finds
    /// out by its own clock, before it asks the database.
    pub(super) fn is_valid(&self) -> bool {
        is_held(*self.0.borrow())
    }

    /// Returns true if another process has the lease, or this one has not had it for a time.
    pub(super) fn is_lost_for(&self, time: Duration) -> bool {
        let end = *self.0.borrow();
        end.is_none_or(|end| Instant::now() >= end + time)
    }

    /// Waits for a change of the lease, a renewal too.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The keeper has ended, and the process with it.
            std::future::pending::<()>().await;
        }
    }
}

impl LeaseKeeper {
    /// Returns a keeper without the lease, and a view of it. The name of the owner is unique.
    pub(super) fn new(pool: PgPool, owner: String) -> (Self, Lease) {
        let (valid_until, view) = watch::channel(None);
        let keeper = Self {
            pool,
            owner,
            valid_until,
        };
        (keeper, Lease(view))
    }

    /// Keeps the lease until `end` is cancelled, and releases it then.
    pub(super) async fn run(self, end: CancellationToken) -> anyhow::Result<()> {
        let mut is_reachable = true;
        while !end.is_cancelled() {
            let renewed = self.renew().await;
            if let Err(error) = &renewed
                && is_reachable
            {
                let error = error as &dyn std::error::Error;
                tracing::warn!(error, "cannot renew the lease of the webhooks; retrying");
            }
            is_reachable = renewed.is_ok();
            let is_held = is_held(*self.valid_until.borrow());
            gauge!(WEBHOOK_DISPATCHER_IS_ACTIVE).set(f64::from(u8::from(is_held)));
            let pause = if is_held {
                RENEWAL_INTERVAL
            } else {
                ACQUIRE_INTERVAL
            };
            timeout(pause, end.cancelled()).await.ok();
        }
        self.release().await;
        Ok(())
    }

    /// Renews or acquires the lease. It lasts from before the question, so that it ends here before it ends in the
    /// database.
    async fn renew(&self) -> sqlx::Result<()> {
        let asked_at = Instant::now();
        let acquiring = dispatcher::acquire(&self.pool, &self.owner, EXPIRY.as_secs_f64());
        let acquired = within(RENEWAL_TIME_MAX, acquiring).await;
        let before = *self.valid_until.borrow();
        let valid_until = match &acquired {
            Ok(true) => Some(asked_at + EXPIRY),
            Ok(false) => None,
            Err(_) => before,
        };
        if before.is_some() && valid_until.is_none() {
            tracing::warn!("another process has the lease of the webhooks: this one sends no more");
        } else if !is_held(before) && is_held(valid_until) {
            tracing::info!(owner = self.owner, "acquired the lease of the webhooks");
        }
        self.valid_until.send_replace(valid_until);
        acquired.map(drop)
    }

    async fn release(&self) {
        self.valid_until.send_replace(None);
        gauge!(WEBHOOK_DISPATCHER_IS_ACTIVE).set(0);
        let releasing = dispatcher::release(&self.pool, &self.owner);
        if let Err(error) = within(RENEWAL_TIME_MAX, releasing).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "cannot release the lease of the webhooks: it expires within 3 s"
            );
        }
    }
}

fn is_held(valid_until: Option<Instant>) -> bool {
    valid_until.is_some_and(|until| Instant::now() < until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_that_ended_is_not_lost_at_once() {
        let (sender, view) = watch::channel(None);
        let lease = Lease(view);
        assert!(!lease.is_valid() && lease.is_lost_for(EXPIRY));
        sender.send_replace(Some(Instant::now() + EXPIRY));
        assert!(lease.is_valid() && !lease.is_lost_for(Duration::ZERO));
        sender.send_replace(Some(Instant::now()));
        assert!(!lease.is_valid() && !lease.is_lost_for(EXPIRY));
        assert!(lease.is_lost_for(Duration::ZERO));
    }
}
