//! How far the shards are below their heads, and whether the event store has to help: when the
//! topic's tail is lost, a broker is down, or the way over the topic is too long.

use std::time::Duration;

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    event_store::log::{self, ReadFrom},
    metrics::{
        CATCH_UPS_TOTAL, PROJECTION_LAG_EVENTS, PROJECTION_LAG_SECONDS, PROJECTION_POSITION,
    },
    shard::{Position, Shard},
};
use metrics::{counter, gauge};
use tokio::time::Instant;

use super::{
    Engine,
    refusal::{Refusal, report_refused},
    tenure::{Tenure, report_parked, report_paused},
};
use crate::read_models::Projection;

/// How often the heads are looked at, at most.
pub const HEADS_INTERVAL: Duration = Duration::from_millis(100);
/// How often the age of what is not applied yet is looked up.
const AGES_INTERVAL: Duration = Duration::from_secs(1);
/// How long a shard may stand still below its head.
const IDLE_MAX: Duration = Duration::from_millis(300);
/// The lag, in events, from which on the event store gives longer runs than the topic.
const LAG_MAX: Position = 20_000;

impl Engine {
    /// Looks at the heads, unless it was done just before.
    pub(super) async fn watch_heads(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        if self
            .heads_read_at
            .is_some_and(|at| now - at < HEADS_INTERVAL)
        {
            return Ok(());
        }
        let end = log::end(&self.pool)
            .await
            .context("can't read where the log ends")?;
        self.heads_read_at = Some(now);
        if self.ages_read_at.is_none_or(|at| now - at >= AGES_INTERVAL) {
            self.report_ages().await?;
            self.ages_read_at = Some(now);
        }
        for shard in Shard::all() {
            if let Some(tenure) = self.tenures.get_mut(&shard) {
                tenure.compare(shard, &end, now);
                continue;
            }
            // Not ours to judge, and no reason for an alert that we have once been behind.
            report_refused(shard, false);
            for projection in Projection::ALL {
                report_lag(projection, shard, 0);
                report_age(projection, shard, 0.0);
                report_parked(projection, shard, 0);
                report_paused(projection, shard, false);
            }
        }
        Ok(())
    }

    /// Tells how old the first event is that each projection has not applied yet.
    async fn report_ages(&self) -> anyhow::Result<()> {
        let mut ages = Vec::new();
        for (shard, tenure) in &self.tenures {
            let Some(progress) = &tenure.progress else {
                continue;
            };
            ages.extend(Projection::ALL.map(|projection| {
                let after = progress.checkpoint(projection).position;
                (
                    projection,
                    ReadFrom {
                        shard: *shard,
                        after,
                    },
                )
            }));
        }
        let places: Vec<ReadFrom> = ages.iter().map(|(_, place)| *place).collect();
        let recorded = log::recorded_after(&self.pool, &places)
            .await
            .context("can't read when events were recorded")?;
        let now = SystemClock.now();
        for ((projection, place), recorded_at) in ages.into_iter().zip(recorded) {
            let age = recorded_at.map_or(0.0, |at| (now - at).as_seconds_f64().max(0.0));
            report_age(projection, place.shard, age);
        }
        Ok(())
    }
}

impl Tenure {
    fn compare(&mut self, shard: Shard, end: &log::LogEnd, now: Instant) {
        let Some(progress) = &mut self.progress else {
            return;
        };
        if progress.epoch() != end.epoch {
            // The log was restored meanwhile: its positions are others.
            self.forget(0);
            return;
        }
        let head = end.heads[shard.index()];
        let at = |projection| (projection, progress.checkpoint(projection).position);
        let mut positions = Projection::ALL.into_iter().map(at);
        if let Some(refusal) = positions.find_map(|it| Refusal::beyond(it, (shard, head))) {
            self.refuse(shard, refusal);
            return;
        }
        for projection in Projection::ALL {
            let position = progress.checkpoint(projection).position;
            report_position(projection, shard, position);
            report_lag(projection, shard, head - position);
        }
        let lag = progress.floor().map_or(0, |floor| head - floor);
        if lag == 0 {
            self.progressed_at = now;
        }
        let stands_still = now - self.progressed_at >= IDLE_MAX;
        if (stands_still || lag > LAG_MAX) && !progress.is_owed() {
            counter!(CATCH_UPS_TOTAL, "shard" => shard.to_string()).increment(1);
            tracing::debug!(%shard, lag, "catching up from the event store");
            progress.owe(head);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
fn report_position(projection: Projection, shard: Shard, position: Position) {
    gauge!(PROJECTION_POSITION, "projection" => projection.name(), "shard" => shard.to_string())
        .set(position as f64);
}

fn report_age(projection: Projection, shard: Shard, seconds: f64) {
    gauge!(PROJECTION_LAG_SECONDS, "projection" => projection.name(), "shard" => shard.to_string())
        .set(seconds);
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
fn report_lag(projection: Projection, shard: Shard, lag: Position) {
    gauge!(PROJECTION_LAG_EVENTS, "projection" => projection.name(), "shard" => shard.to_string())
        .set(lag as f64);
}
