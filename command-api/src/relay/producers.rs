//! Processes whose Kafka producer may still deliver records: table `event_store.relay_producers`.
//!
//! Invariant: a process is registered from before it makes a producer until nothing that
//! the producer has sent can arrive any more. A republish waits until no process is registered.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use linkledger_core::clock::{self, Clock as _, SystemClock};
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::lease::Lease;

/// Settling time: a closed connection may deliver unanswered requests until it has passed. Longer than the
/// operating system retries (`tcp_orphan_retries`). A client that was left behind (`kafka_close`) keeps its
/// connection open, for which the operating system retries longer, some 15 minutes.
const SETTLING_TIME: Duration = Duration::from_mins(5);

/// Process that may still publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredProducer {
    /// Name of the process.
    pub owner: String,
    /// Time at which the last record of an ended producer can arrive; none while the producer
    /// may exist.
    pub settles_at: Option<OffsetDateTime>,
}

/// Registration of the producer of this process.
#[derive(Debug)]
pub struct ProducerRegistration {
    pool: PgPool,
    owner: String,
    /// Identifies this run of the process: an earlier run had the same owner.
    process_id: Uuid,
    /// True after the database has answered that the process is registered.
    is_registered: bool,
    /// True from before the registration until the database has answered that it has ended.
    may_be_registered: bool,
    /// Time at which a producer of this process last ended with unanswered requests.
    unanswered_at: Option<Instant>,
}

impl ProducerRegistration {
    /// Returns the registration of a process that has made no producer yet.
    pub fn new(pool: PgPool, owner: String) -> Self {
        Self {
            pool,
            owner,
            process_id: clock::new_uuid(SystemClock.now()),
            is_registered: false,
            may_be_registered: false,
            unanswered_at: None,
        }
    }

    /// Lets the registrations of earlier runs of this process, which were killed, end a settling time from
    /// now: until then their records may arrive. If an earlier run is alive after all, that run loses the
    /// lease to this one, closes its producer, and ends its registration. Deletes registrations whose
    /// settling time has passed.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn settle_former(&self) -> anyhow::Result<()> {
        sqlx::query!(
            "
            WITH settled AS (DELETE FROM event_store.relay_producers WHERE settles_at < now())
            UPDATE event_store.relay_producers
            SET settles_at = now() + make_interval(secs => $3)
            WHERE owner = $1 AND process_id <> $2 AND settles_at IS NULL
            ",
            self.owner,
            self.process_id,
            SETTLING_TIME.as_secs_f64()
        )
        .execute(&self.pool)
        .await
        .context("cannot end the registration of the former producer")?;
        Ok(())
    }

    /// Registers this process, before a producer is made.
    ///
    /// A republish locks the same rows: either the republish sees the registration, or the registration
    /// sees that the republish has ended the lease.
    ///
    /// # Errors
    /// Returns an error if the lease is lost, or the database fails.
    pub async fn register(&mut self, lease: Lease) -> anyhow::Result<()> {
        if self.is_registered {
            return Ok(());
        }
        self.may_be_registered = true;
        let registered = sqlx::query!(
            "
            WITH leased AS (
                SELECT shard FROM event_store.relay_cursors
                WHERE owner = $1 AND lease_epoch = $3 AND paused_at IS NULL
                ORDER BY shard FOR NO KEY UPDATE
            )
            INSERT INTO event_store.relay_producers (owner, process_id)
            SELECT $1, $2 WHERE EXISTS (SELECT FROM leased)
            ON CONFLICT (owner, process_id) DO UPDATE SET settles_at = NULL
            ",
            self.owner,
            self.process_id,
            lease.epoch
        )
        .execute(&self.pool)
        .await
        .context("cannot register the producer")?;
        ensure!(
            registered.rows_affected() > 0,
            "the lease was lost before a producer was made"
        );
        self.is_registered = true;
        Ok(())
    }

    /// Ends the registration, after the producer is closed: at once, or after the settling time
    /// if requests were unanswered.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn end(&mut self, all_answered: bool) -> anyhow::Result<()> {
        // First of all: a call that is dropped half-way must not lose this.
        if !all_answered {
            self.unanswered_at = Some(Instant::now());
        }
        if !self.may_be_registered {
            return Ok(());
        }
        self.is_registered = false;
        let unanswered_for = self.unanswered_at.map(|at| at.elapsed());
        let rest = unanswered_for.map_or(Duration::ZERO, |passed| {
            SETTLING_TIME.saturating_sub(passed)
        });
        sqlx::query!(
            "UPDATE event_store.relay_producers
                     SET settles_at = now() + make_interval(secs => $3)
                     WHERE owner = $1 AND process_id = $2",
            self.owner,
            self.process_id,
            rest.as_secs_f64()
        )
        .execute(&self.pool)
        .await
        .context("cannot end the registration of the producer")?;
        self.may_be_registered = false;
        Ok(())
    }
}

/// Lists the processes that may still publish, by name, without the registered processes that have
/// `ended` according to an operator.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(
    executor: impl PgExecutor<'_>,
    ended: &[String],
) -> anyhow::Result<Vec<RegisteredProducer>> {
    sqlx::query_as!(
        RegisteredProducer,
        "SELECT owner, settles_at FROM event_store.relay_producers
         WHERE settles_at > now() OR (settles_at IS NULL AND owner <> ALL($1)) ORDER BY owner",
        ended
    )
    .fetch_all(executor)
    .await
    .context("cannot read which processes may still publish")
}

/// Deletes the registrations of processes that have `ended` according to an operator.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn forget(executor: impl PgExecutor<'_>, ended: &[String]) -> anyhow::Result<()> {
    sqlx::query!(
        "DELETE FROM event_store.relay_producers WHERE settles_at IS NULL AND owner = ANY($1)",
        ended
    )
    .execute(executor)
    .await
    .context("cannot delete the registrations of ended processes")?;
    Ok(())
}
