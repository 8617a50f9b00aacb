//! Processes whose Kafka producer may still have records on their way: table
//! `event_store.relay_producers`.
//!
//! What must stay true: whoever has a producer is noted, from before it is made until it is gone.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use sqlx::PgPool;
use time::OffsetDateTime;

use super::cursor::Lease;

/// For how long a closed connection may still deliver what was sent over it without an answer: as
/// long as the system goes on trying (`tcp_orphan_retries`), and then some.
const SETTLE: Duration = Duration::from_mins(5);

/// A process that may still publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedProducer {
    /// The name of the process.
    pub owner: String,
    /// When it was noted.
    pub made_at: OffsetDateTime,
    /// From when on nothing of it can arrive any more, if its producer is gone.
    pub settles_at: Option<OffsetDateTime>,
}

/// Whether this process is noted.
#[derive(Debug)]
pub struct Note {
    pool: PgPool,
    owner: String,
    is_noted: bool,
    /// When a producer of this process last ended while requests were unanswered.
    unanswered_at: Option<Instant>,
}

impl Note {
    /// Of a process that has made no producer yet.
    pub const fn new(pool: PgPool, owner: String) -> Self {
        Self {
            pool,
            owner,
            is_noted: false,
            unanswered_at: None,
        }
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
        let noted = sqlx::query_scalar!(
            r#"
            WITH ours AS (
                SELECT c.shard FROM event_store.relay_cursors AS c
                JOIN unnest($2::smallint[], $3::bigint[]) AS held (shard, lease_epoch)
                    ON c.shard = held.shard AND c.lease_epoch = held.lease_epoch
                WHERE c.owner = $1 AND c.paused_at IS NULL
                ORDER BY c.shard
                FOR NO KEY UPDATE OF c
            )
            INSERT INTO event_store.relay_producers AS p (owner, made_at)
            SELECT $1, now() WHERE EXISTS (SELECT FROM ours)
            ON CONFLICT (owner) DO UPDATE SET made_at = now(), settles_at = NULL
            RETURNING EXISTS (
                SELECT FROM event_store.relay_producers AS former
                WHERE former.owner = $1 AND (former.settles_at IS NULL OR former.settles_at > now())
            ) AS "was_noted!"
            "#,
            self.owner,
            &shards,
            &epochs
        )
        .fetch_optional(&self.pool)
        .await
        .context("can't note the producer")?;
        ensure!(
            noted.is_some(),
            "the leases were lost before they were used"
        );
        self.is_noted = true;
        if noted == Some(true) && self.unanswered_at.is_none() {
            // A former life of this process has not struck itself off.
            self.unanswered_at = Some(Instant::now());
        }
        Ok(())
    }

    /// After the producer is gone; not all that it has sent may have been answered.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn strike_off(&mut self, all_answered: bool) -> anyhow::Result<()> {
        if !self.is_noted {
            return Ok(());
        }
        if !all_answered {
            self.unanswered_at = Some(Instant::now());
        }
        let settled = self.unanswered_at.map(|at| at.elapsed());
        let struck = match settled.and_then(|since| SETTLE.checked_sub(since)) {
            None => {
                sqlx::query!(
                    "DELETE FROM event_store.relay_producers
                     WHERE owner = $1 OR settles_at < now()",
                    self.owner
                )
                .execute(&self.pool)
                .await
            }
            Some(rest) => {
                sqlx::query!(
                    "UPDATE event_store.relay_producers
                     SET settles_at = now() + make_interval(secs => $2) WHERE owner = $1",
                    self.owner,
                    rest.as_secs_f64()
                )
                .execute(&self.pool)
                .await
            }
        };
        struck.context("can't strike the producer off")?;
        self.is_noted = false;
        Ok(())
    }
}

/// Those that may still publish, by name.
///
/// # Errors
/// When the database does not answer.
pub async fn list(pool: &PgPool) -> anyhow::Result<Vec<NotedProducer>> {
    sqlx::query_as!(
        NotedProducer,
        "SELECT owner, made_at, settles_at FROM event_store.relay_producers
         WHERE settles_at IS NULL OR settles_at > now() ORDER BY owner"
    )
    .fetch_all(pool)
    .await
    .context("can't read which processes may still publish")
}

/// Forgets a process of which an operator knows that it has ended. Returns whether it was noted.
///
/// # Errors
/// When the database does not answer.
pub async fn forget(pool: &PgPool, owner: &str) -> anyhow::Result<bool> {
    let forgotten = sqlx::query!(
        "DELETE FROM event_store.relay_producers WHERE owner = $1",
        owner
    )
    .execute(pool)
    .await
    .context("can't strike the producer off")?;
    Ok(forgotten.rows_affected() > 0)
}
