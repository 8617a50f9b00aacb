//! Table `read_model.tenures`: what this process reports of itself, once a second, for operators.
//!
//! Nothing is decided by it, and a report that fails holds nothing up.

use std::{collections::BTreeMap, time::Duration};

use linkledger_core::{
    clock::{Clock as _, SystemClock},
    lifecycle::host_name,
    shard::{Position, Shard},
};
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::time::{Instant, timeout};

use crate::read_models::{PerProjection, Projection};

/// How often a process reports.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long a report may take.
const PATIENCE: Duration = Duration::from_millis(500);
/// Most characters of an error.
const ERROR_LENGTH_MAX: usize = 500;

/// What a process knows of a shard that it looks after.
#[derive(Debug, Clone, Copy)]
pub struct Tenancy {
    /// Which.
    pub shard: Shard,
    /// When it began to.
    pub since: OffsetDateTime,
    /// How far the projections are there, if it knows at the moment.
    pub positions: Option<PerProjection<Position>>,
}

/// A name for this process, by which an operator finds it.
pub fn this_process() -> String {
    format!("{}:{}", host_name(), std::process::id())
}

/// Reports what becomes of the shards of this process.
pub struct Heartbeat {
    pool: PgPool,
    owner: String,
    beaten_at: Option<Instant>,
    measured: BTreeMap<Shard, (Instant, PerProjection<Position>)>,
    /// The last one that was not reported yet.
    error: Option<(String, OffsetDateTime)>,
}

impl Heartbeat {
    /// Of a process of that name.
    pub fn new(pool: PgPool, owner: String) -> Self {
        Self {
            pool,
            owner,
            beaten_at: None,
            measured: BTreeMap::new(),
            error: None,
        }
    }

    /// Something went wrong; the next report tells of it.
    pub fn note_error(&mut self, error: &anyhow::Error) {
        let text: String = format!("{error:#}")
            .chars()
            .take(ERROR_LENGTH_MAX)
            .collect();
        self.error = Some((text, SystemClock.now()));
    }

    /// Reports, unless it did so within the last second.
    pub async fn beat_if_due(&mut self, tenancies: &[Tenancy]) {
        if self.beaten_at.is_none_or(|at| at.elapsed() >= INTERVAL) {
            self.beat(tenancies).await;
        }
    }

    /// Reports.
    pub async fn beat(&mut self, tenancies: &[Tenancy]) {
        if tenancies.is_empty() {
            return;
        }
        let now = Instant::now();
        self.beaten_at = Some(now);
        let rates: Vec<_> = tenancies.iter().map(|it| self.rates(it, now)).collect();
        self.measured
            .retain(|shard, _| tenancies.iter().any(|it| it.shard == *shard));
        match timeout(PATIENCE, self.write(tenancies, &rates)).await {
            Ok(Ok(())) => self.error = None,
            Ok(Err(error)) => tracing::debug!(%error, "can't report to operators"),
            Err(_) => tracing::debug!("can't report to operators in time"),
        }
    }

    /// Events per second since the last report of the shard.
    #[expect(clippy::cast_precision_loss, reason = "a rate is a float")]
    fn rates(&mut self, tenancy: &Tenancy, now: Instant) -> PerProjection<f64> {
        let Some(positions) = tenancy.positions else {
            return PerProjection::default();
        };
        let before = self.measured.insert(tenancy.shard, (now, positions));
        let Some((at, before)) = before else {
            return PerProjection::default();
        };
        let seconds = (now - at).as_secs_f64().max(f64::EPSILON);
        let rate = |index: usize| (positions[index] - before[index]).max(0) as f64 / seconds;
        Projection::ALL.map(|projection| rate(projection.index()))
    }

    async fn write(&self, tenancies: &[Tenancy], rates: &[PerProjection<f64>]) -> sqlx::Result<()> {
        let mut columns = Columns::default();
        for (tenancy, rates) in tenancies.iter().zip(rates) {
            for projection in Projection::ALL {
                columns.projections.push(projection.name());
                columns.shards.push(tenancy.shard.number());
                columns.since.push(tenancy.since);
                columns.rates.push(rates[projection.index()]);
            }
        }
        let (error, error_at) = self
            .error
            .as_ref()
            .map(|(text, at)| (text.as_str(), *at))
            .unzip();
        // A process that stood still and has lost the shard meanwhile leaves the other's row alone.
        sqlx::query!(
            "
            INSERT INTO read_model.tenures AS t
                (projection, shard, owner, version, since, seen_at, events_per_second,
                 last_error, last_error_at)
            SELECT n.projection, n.shard, $5, $6, n.since, now(), n.rate, $7, $8
            FROM unnest($1::text[], $2::smallint[], $3::timestamptz[], $4::double precision[])
                AS n (projection, shard, since, rate)
            ORDER BY n.projection, n.shard
            ON CONFLICT (projection, shard) DO UPDATE
            SET owner = excluded.owner, version = excluded.version, since = excluded.since,
                seen_at = excluded.seen_at, events_per_second = excluded.events_per_second,
                last_error = coalesce(excluded.last_error, t.last_error),
                last_error_at = coalesce(excluded.last_error_at, t.last_error_at)
            WHERE t.owner = excluded.owner OR t.since <= excluded.since
               OR t.seen_at < now() - interval '5 seconds'
            ",
            &columns.projections as &[&str],
            &columns.shards,
            &columns.since,
            &columns.rates,
            self.owner,
            env!("CARGO_PKG_VERSION"),
            error,
            error_at
        )
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

/// The rows column by column, as `unnest` takes them.
#[derive(Default)]
struct Columns {
    projections: Vec<&'static str>,
    shards: Vec<i16>,
    since: Vec<OffsetDateTime>,
    rates: Vec<f64>,
}
