//! Processes whose Kafka producer may still have records on their way: table
//! `event_store.relay_producers`.
//!
//! What must stay true: whoever has a producer is noted, from before it is made until it is gone.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use linkledger_core::clock::{self, Clock as _, SystemClock};
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::cursor::Lease;

/// For how long a closed connection may still deliver what was sent over it without an answer: as
/// long as the system goes on trying (`tcp_orphan_retries`), and then some.
const SETTLE: Duration = Duration::from_mins(5);

/// A process that may still publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedProducer {
    /// The name of the process.
    pub owner: String,
    /// From when on nothing of it can arrive any more, if its producer is gone.
    pub settles_at: Option<OffsetDateTime>,
}

/// Whether this process is noted.
#[derive(Debug)]
pub struct Note {
    pool: PgPool,
    owner: String,
    /// Of this run of the process: what others have noted under its name is not its own.
    process_id: Uuid,
    /// It surely is.
    is_noted: bool,
    /// It may be: the database was asked, and has not answered that it is struck off.
    may_be_noted: bool,
    /// When a producer of this process last ended while requests were unanswered.
    unanswered_at: Option<Instant>,
}

impl Note {
    /// Of a process that has made no producer yet.
    pub fn new(pool: PgPool, owner: String) -> Self {
        Self {
            pool,
            owner,
            process_id: clock::new_uuid(SystemClock.now()),
            is_noted: false,
            may_be_noted: false,
            unanswered_at: None,
        }
    }

    /// At the start of a process: what a former run of it has left, because it was killed, needs
    /// only be waited for. Should that one still run after all, it loses its leases to this one,
    /// ends its producer, and strikes itself off.
    ///
    /// # Errors
    /// When the database does not answer.
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
            SETTLE.as_secs_f64()
        )
        .execute(&self.pool)
        .await
        .context("can't note that the former producer has ended")?;
        Ok(())
    }

    /// Before a producer is made.
    ///
    /// The row of a lease is locked, as a refill locks it: either the refill sees the note, or this
    /// sees that the refill has taken the lease away.
    ///
    /// # Errors
    /// When none of the leases is ours any more, or the database does not answer.
    pub async fn write(&mut self, leases: &[Lease]) -> anyhow::Result<()> {
        if self.is_noted {
            return Ok(());
        }
        let (shards, epochs): (Vec<i16>, Vec<i64>) = leases
            .iter()
            .map(|lease| (lease.shard.number(), lease.epoch))
            .unzip();
        self.may_be_noted = true;
        let noted = sqlx::query!(
            "
            WITH ours AS (
                SELECT c.shard FROM event_store.relay_cursors AS c
                JOIN unnest($3::smallint[], $4::bigint[]) AS held (shard, lease_epoch)
                    ON c.shard = held.shard AND c.lease_epoch = held.lease_epoch
                WHERE c.owner = $1 AND c.paused_at IS NULL
                ORDER BY c.shard
                FOR NO KEY UPDATE OF c
            )
            INSERT INTO event_store.relay_producers (owner, process_id, made_at)
            SELECT $1, $2, now() WHERE EXISTS (SELECT FROM ours)
            ON CONFLICT (owner, process_id) DO UPDATE SET made_at = now(), settles_at = NULL
            ",
            self.owner,
            self.process_id,
            &shards,
            &epochs
        )
        .execute(&self.pool)
        .await
        .context("can't note the producer")?;
        ensure!(
            noted.rows_affected() > 0,
            "the leases were lost before they were used"
        );
        self.is_noted = true;
        Ok(())
    }

    /// After the producer is gone; not all that it has sent may have been answered.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn strike_off(&mut self, all_answered: bool) -> anyhow::Result<()> {
        // First of all: if this is dropped half-way, the next call must know.
        if !all_answered {
            self.unanswered_at = Some(Instant::now());
        }
        if !self.may_be_noted {
            return Ok(());
        }
        self.is_noted = false;
        let settled = self.unanswered_at.map(|at| at.elapsed());
        let struck = match settled.and_then(|since| SETTLE.checked_sub(since)) {
            None => {
                sqlx::query!(
                    "DELETE FROM event_store.relay_producers
                     WHERE (owner = $1 AND process_id = $2) OR settles_at < now()",
                    self.owner,
                    self.process_id
                )
                .execute(&self.pool)
                .await
            }
            Some(rest) => {
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
            }
        };
        struck.context("can't strike the producer off")?;
        self.may_be_noted = false;
        Ok(())
    }
}

/// Those that may still publish, by name; without those of which an operator knows that they have
/// `ended` without saying so.
///
/// # Errors
/// When the database does not answer.
pub async fn list(
    executor: impl PgExecutor<'_>,
    ended: &[String],
) -> anyhow::Result<Vec<NotedProducer>> {
    sqlx::query_as!(
        NotedProducer,
        "SELECT owner, settles_at FROM event_store.relay_producers
         WHERE settles_at > now() OR (settles_at IS NULL AND owner <> ALL($1)) ORDER BY owner",
        ended
    )
    .fetch_all(executor)
    .await
    .context("can't read which processes may still publish")
}

/// Forgets those processes that an operator knows to have ended.
///
/// # Errors
/// When the database does not answer.
pub async fn forget(executor: impl PgExecutor<'_>, ended: &[String]) -> anyhow::Result<()> {
    sqlx::query!(
        "DELETE FROM event_store.relay_producers WHERE settles_at IS NULL AND owner = ANY($1)",
        ended
    )
    .execute(executor)
    .await
    .context("can't strike the producers off")?;
    Ok(())
}
