//! Lag of the relay: number and age of the unpublished events, for a gauge and log lines. The backlog
//! is read from the log, never counted along, so the numbers stay true in a long outage.

use std::time::Duration;

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    shard::Shard,
};
use linkledger_event_store::log::{self, ReadFrom};
use linkledger_service::metrics::RELAY_OLDEST_UNPUBLISHED_AGE_SECONDS;
use metrics::gauge;
use sqlx::PgPool;

/// Sum of the backlogs of all leased shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Backlog {
    pub(super) events: i64,
    pub(super) oldest_age: Duration,
}

/// Measures the backlog above the `acknowledged` positions, and sets the gauge of each shard.
pub(super) async fn measure(pool: &PgPool, acknowledged: &[ReadFrom]) -> anyhow::Result<Backlog> {
    let heads = log::heads(pool)
        .await
        .context("cannot read the heads of the log")?;
    let recorded = log::recording_times_after(pool, acknowledged).await;
    let recorded = recorded.context("cannot read the log")?;
    let now = SystemClock.now();
    let mut backlog = Backlog::default();
    for (place, recorded_at) in acknowledged.iter().zip(recorded) {
        let events = heads[place.shard.index()] - place.after;
        let age = recorded_at.map_or(Duration::ZERO, |at| {
            Duration::try_from(now - at).unwrap_or_default()
        });
        set_gauge(place.shard, age);
        backlog.events += events;
        backlog.oldest_age = backlog.oldest_age.max(age);
    }
    Ok(backlog)
}

/// Sets the gauge of a shard to zero: from now on another process reports the shard.
pub(super) fn clear(shard: Shard) {
    set_gauge(shard, Duration::ZERO);
}

fn set_gauge(shard: Shard, oldest_age: Duration) {
    gauge!(RELAY_OLDEST_UNPUBLISHED_AGE_SECONDS, "shard" => shard.to_string()).set(oldest_age);
}
