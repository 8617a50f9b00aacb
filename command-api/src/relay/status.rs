//! How far publishing is, by shard, as the table of cursors and the log say.

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
    producers::{self, NotedProducer},
};

/// How publishing gets on.
#[derive(Debug, Clone)]
pub struct Status {
    /// Set while an operator wants nothing to be published.
    pub pause: Option<Pause>,
    /// Processes that have a producer, or had one until a short while ago.
    pub producers: Vec<NotedProducer>,
    /// All shards.
    pub shards: Vec<ShardStatus>,
}

/// How far a shard is published.
#[derive(Debug, Clone)]
pub struct ShardStatus {
    /// The shard.
    pub shard: Shard,
    /// Everything up to it is acknowledged, as stored.
    pub position: Position,
    /// The end of the log.
    pub head: Position,
    /// Since when the first event that is not published waits, in seconds.
    pub oldest_age_s: Option<f64>,
    /// Who publishes it, or has done so last.
    pub owner: Option<String>,
    /// For how long the lease lasts, in seconds; nothing if it has run out.
    pub lease_s: Option<f64>,
    /// The cluster that has the records.
    pub cluster_id: Option<String>,
    /// Where in the topic there is a record, if that is known.
    pub record_offset: Option<i64>,
    /// Why nothing is published, since when.
    pub refusal: Option<(String, OffsetDateTime)>,
    /// When and by whom the cursor was set, and to what.
    pub refilled: Option<(OffsetDateTime, String, Position)>,
}

impl Status {
    /// Events that wait in all shards.
    pub fn backlog(&self) -> i64 {
        let waiting = |it: &ShardStatus| (it.head - it.position).max(0);
        self.shards.iter().map(waiting).sum()
    }
}

/// Reads it.
///
/// # Errors
/// When the database does not answer.
pub async fn read(pool: &PgPool) -> anyhow::Result<Status> {
    let heads = log::heads(pool)
        .await
        .context("can't read the log's heads")?;
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
    .context("can't read the cursors")?;
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
        .map(|it| ReadFrom {
            shard: it.shard,
            after: it.position,
        })
        .collect();
    let recorded = log::recorded_after(pool, &places).await;
    let now = SystemClock.now();
    for (shard, recorded_at) in shards
        .iter_mut()
        .zip(recorded.context("can't read the log")?)
    {
        shard.oldest_age_s = recorded_at.map(|at| (now - at).as_seconds_f64().max(0.0));
    }
    Ok(Status {
        pause: pause::find(pool).await?,
        producers: producers::list(pool, &[]).await?,
        shards,
    })
}
