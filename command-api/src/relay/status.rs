//! Status of publishing, by shard, read from the cursors and the log.

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    event_store::log::{self, ReadFrom},
    shard::{Position, Shard},
};
use sqlx::PgPool;
use time::OffsetDateTime;

use super::{
    pause::{self, Pause},
    producers::{self, RegisteredProducer},
};

/// Status of publishing.
#[derive(Debug, Clone)]
pub struct RelayStatus {
    /// Pause, if publishing is paused.
    pub pause: Option<Pause>,
    /// Processes whose producer may still deliver records.
    pub producers: Vec<RegisteredProducer>,
    /// Status of every shard.
    pub shards: Vec<ShardStatus>,
}

/// Status of a shard.
#[derive(Debug, Clone)]
pub struct ShardStatus {
    /// Shard of the cursor.
    pub shard: Shard,
    /// Stored acknowledged position.
    pub position: Position,
    /// Head of the shard.
    pub head: Position,
    /// Age of the oldest unpublished event, in seconds.
    pub oldest_age_s: Option<f64>,
    /// Process that has the lease, or had the lease last.
    pub owner: Option<String>,
    /// Remaining time of the lease, in seconds; none if the lease has expired.
    pub lease_s: Option<f64>,
    /// Id of the cluster that has the records.
    pub cluster_id: Option<String>,
    /// Offset of a published record, if one is known.
    pub record_offset: Option<i64>,
    /// Reason and begin of a refusal.
    pub refusal: Option<(String, OffsetDateTime)>,
    /// Time, operator and position of the last refill.
    pub refilled: Option<(OffsetDateTime, String, Position)>,
}

impl RelayStatus {
    /// Returns the number of unpublished events of all shards.
    pub fn backlog(&self) -> i64 {
        let waiting = |shard: &ShardStatus| (shard.head - shard.position).max(0);
        self.shards.iter().map(waiting).sum()
    }
}

/// Reads the status.
///
/// # Errors
/// Returns an error if the database does not answer.
pub async fn read(pool: &PgPool) -> anyhow::Result<RelayStatus> {
    let heads = log::heads(pool)
        .await
        .context("cannot read the heads of the log")?;
    let rows = sqlx::query!(
        r#"
        SELECT shard, position, owner, cluster_id, record_offset, refusal, refused_at,
               refilled_at, refilled_by, refilled_from,
               extract(epoch FROM lease_expires_at - now())::float8 AS lease_s
        FROM event_store.relay_cursors ORDER BY shard
        "#
    )
    .fetch_all(pool)
    .await
    .context("cannot read the cursors")?;
    let mut shards = Vec::new();
    for row in rows {
        let Some(shard) = Shard::new(row.shard.into()) else {
            continue;
        };
        shards.push(ShardStatus {
            shard,
            position: row.position,
            head: heads[shard.index()],
            oldest_age_s: None,
            owner: row.owner,
            lease_s: row.lease_s.filter(|seconds| *seconds > 0.0),
            cluster_id: row.cluster_id,
            record_offset: row.record_offset,
            refusal: row.refusal.zip(row.refused_at),
            refilled: row
                .refilled_at
                .zip(row.refilled_by)
                .zip(row.refilled_from)
                .map(|((at, by), from)| (at, by, from)),
        });
    }
    let places: Vec<ReadFrom> = shards
        .iter()
        .map(|shard| ReadFrom {
            shard: shard.shard,
            after: shard.position,
        })
        .collect();
    let recorded = log::recording_times_after(pool, &places).await;
    let now = SystemClock.now();
    for (shard, recorded_at) in shards
        .iter_mut()
        .zip(recorded.context("cannot read the log")?)
    {
        shard.oldest_age_s = recorded_at.map(|at| (now - at).as_seconds_f64().max(0.0));
    }
    Ok(RelayStatus {
        pause: pause::find(pool).await?,
        producers: producers::list(pool, &[]).await?,
        shards,
    })
}
