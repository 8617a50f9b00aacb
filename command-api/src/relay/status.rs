//! Status of publishing, read from the cursors and the log.

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    shard::{Position, Shard},
    timestamp,
};
use linkledger_event_store::log::{self, ReadFrom};
use serde::Serialize;
use sqlx::PgPool;

use super::{
    cursor,
    pause::{Pause, Resumption},
    producers,
};

/// Status of publishing.
#[derive(Debug, Clone, Serialize)]
pub struct RelayStatus {
    /// Pause, if publishing is paused.
    pub paused: Option<Pause>,
    /// End of the last pause, if publishing is not paused.
    pub resumed: Option<Resumption>,
    /// Number of unpublished events of all shards.
    pub backlog_events: i64,
    /// Processes whose producer may still deliver records.
    pub producers: Vec<String>,
    /// Status of every shard.
    pub shards: Vec<ShardStatus>,
}

/// Status of a shard.
#[derive(Debug, Clone, Serialize)]
pub struct ShardStatus {
    /// Number of the shard.
    pub shard: i16,
    /// Stored acknowledged position.
    pub position: Position,
    /// Head of the shard.
    pub head: Position,
    /// Number of unpublished events.
    pub backlog_events: i64,
    /// Age of the oldest unpublished event.
    pub oldest_age_seconds: Option<f64>,
    /// Process that has the lease, or had the lease last.
    pub owner: Option<String>,
    /// Remaining time of the lease; none if the lease has expired.
    pub lease_seconds: Option<f64>,
    /// Reason why the owner publishes nothing, or why the shard is stopped.
    pub refusal: Option<String>,
    /// Start of the refusal or of the stop.
    pub refused_since: Option<String>,
    /// Id of the cluster that has the records.
    pub cluster_id: Option<String>,
    /// Offset of a published record, if one is known.
    pub record_offset: Option<i64>,
}

/// Reads the status.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read(pool: &PgPool) -> anyhow::Result<RelayStatus> {
    let cursors = cursor::read(pool).await?;
    let paused = cursors.iter().find_map(cursor::Cursor::pause);
    let resumed = cursors.iter().filter_map(cursor::Cursor::resumption);
    let resumed = resumed.max_by(|one, other| one.at.cmp(&other.at));
    let places = Shard::all().zip(&cursors).map(|(shard, cursor)| ReadFrom {
        shard,
        after: cursor.position,
    });
    let recorded = log::recording_times_after(pool, &places.collect::<Vec<_>>()).await;
    let recorded = recorded.context("cannot read the log")?;
    let now = SystemClock.now();
    let shards = Shard::all().zip(cursors).zip(recorded);
    let shards = shards.map(|((shard, cursor), recorded_at)| ShardStatus {
        shard: shard.number(),
        position: cursor.position,
        head: cursor.head,
        backlog_events: (cursor.head - cursor.position).max(0),
        oldest_age_seconds: recorded_at.map(|at| (now - at).as_seconds_f64().max(0.0)),
        owner: cursor.owner,
        lease_seconds: cursor.lease_s,
        refusal: cursor.refusal,
        refused_since: cursor.refused_at.map(timestamp::format),
        cluster_id: cursor.cluster_id,
        record_offset: cursor.record_offset,
    });
    let shards: Vec<ShardStatus> = shards.collect();
    let producers = producers::list(pool, &[]).await?.into_iter();
    let mut producers: Vec<String> = producers.map(|producer| producer.owner).collect();
    producers.dedup();
    Ok(RelayStatus {
        resumed: resumed.filter(|_| paused.is_none()),
        paused,
        backlog_events: shards.iter().map(|shard| shard.backlog_events).sum(),
        producers,
        shards,
    })
}
