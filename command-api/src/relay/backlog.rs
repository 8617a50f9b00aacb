//! What waits in the log to be published, how much and since when: for the gauges and for log
//! lines. It is looked up, never counted along, so it is true however long the broker is away.

use std::time::Duration;

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    event_store::log::{self, PerShard, ReadFrom},
    metrics::{RELAY_BACKLOG_EVENTS, RELAY_OLDEST_UNPUBLISHED_AGE_SECONDS},
    shard::{Position, Shard},
};
use metrics::gauge;
use sqlx::PgPool;

/// The backlog of the shards of this process together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Backlog {
    pub(super) events: i64,
    pub(super) oldest_age: Duration,
}

/// Looks what waits above the acknowledged positions, and shows it in the gauges.
pub(super) async fn measure(
    pool: &PgPool,
    acknowledged: &PerShard<Option<Position>>,
) -> anyhow::Result<Backlog> {
    let heads = log::heads(pool)
        .await
        .context("can't read the log's heads")?;
    let places: Vec<ReadFrom> = Shard::all()
        .filter_map(|shard| {
            let after = acknowledged[shard.index()]?;
            Some(ReadFrom { shard, after })
        })
        .collect();
    let recorded = log::recorded_after(pool, &places).await;
    let recorded = recorded.context("can't read the log")?;
    let now = SystemClock.now();
    let mut backlog = Backlog::default();
    for (place, recorded_at) in places.iter().zip(recorded) {
        let events = heads[place.shard.index()] - place.after;
        let age = recorded_at.map_or(Duration::ZERO, |at| {
            Duration::try_from(now - at).unwrap_or_default()
        });
        show(place.shard, events, age);
        backlog.events += events;
        backlog.oldest_age = backlog.oldest_age.max(age);
    }
    Ok(backlog)
}

/// From here on the shard is told of by the process that has it.
pub(super) fn is_of_another(shard: Shard) {
    show(shard, 0, Duration::ZERO);
}

fn show(shard: Shard, events: i64, oldest_age: Duration) {
    let label = shard.to_string();
    gauge!(RELAY_BACKLOG_EVENTS, "shard" => label.clone()).set(count(events));
    gauge!(RELAY_OLDEST_UNPUBLISHED_AGE_SECONDS, "shard" => label).set(oldest_age);
}

/// A position or a count of events as a metric; exact up to 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "metrics are floating point numbers"
)]
pub(super) fn count(events: i64) -> f64 {
    events as f64
}
