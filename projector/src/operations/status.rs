//! Report of `projector status`: position, owner and state of each projection in each shard,
//! commands of operators, backlog of the relay, and the oldest snapshot of the database.
//!
//! Every query uses an index and takes some milliseconds whatever the tables hold, so the report
//! may be read once a second.

mod checkpoints;
pub mod clicks;
mod findings;
pub mod generations;
pub mod operations;
pub mod projection;
pub mod relay;
pub mod snapshot;

use anyhow::Context as _;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    shard::Shard,
    timestamp,
};
use linkledger_event_store::log::{self, ReadFrom};
use linkledger_service::databases::Databases;
use serde::{Serialize, Serializer};
use sqlx::PgPool;
use time::OffsetDateTime;
use utoipa::ToSchema;

use self::{
    clicks::ClickStatus, projection::ProjectionStatus, relay::PublishingStatus,
    snapshot::HeldSnapshots,
};
use crate::{
    operations::{
        audit::{RecordedCommand, recorded, report::COMMANDS_MAX},
        pause::FollowerName,
        verify::outcome,
    },
    read_models::Projection,
};

/// State of the projections, of operators' commands and of the relay.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Status)]
pub struct StatusReport {
    /// Time of reading.
    #[schema(format = DateTime)]
    pub at: String,
    /// Epoch of the log.
    pub log_epoch: i32,
    /// Every projection, by name.
    pub projections: Vec<ProjectionStatus>,
    /// Long commands without a recorded end.
    pub operations: Vec<RecordedCommand>,
    /// Last commands that failed within a day and have not succeeded since.
    pub failed_operations: Vec<RecordedCommand>,
    /// The latest commands of operators and all that run, newest first.
    pub recent_operations: Vec<RecordedCommand>,
    /// State of publishing.
    pub relay: PublishingStatus,
    /// Aggregation of clicks; null if its state cannot be read, which is a finding.
    #[schema(value_type = Option<ClickStatus>)]
    #[serde(serialize_with = "serialize_readable")]
    pub clicks: Result<ClickStatus, String>,
    /// Snapshots that keep Postgres from removing dead rows.
    pub snapshots: HeldSnapshots,
    /// Findings that wait for an operator, a sentence each; empty while all is well.
    pub findings: Vec<String>,
}

/// Reads the report.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn collect(databases: &Databases) -> anyhow::Result<StatusReport> {
    let (end, mut projections) = checkpoints::read(databases).await?;
    let recorded = recorded(&databases.read, COMMANDS_MAX)
        .await
        .context("cannot read the commands of operators")?;
    let operations = operations::running(&recorded);
    let failed_operations = operations::failed(&recorded);
    let generations = generations::read(&databases.read, &end, &operations)
        .await
        .context("cannot read the generations")?;
    let upgraded_at = upgraded_at(databases)
        .await
        .context("cannot read when the read tables were migrated")?;
    for (projection, it) in Projection::ALL.into_iter().zip(&mut projections) {
        let own = generations
            .iter()
            .filter(|own| own.projection == it.projection);
        it.generations = own.cloned().collect();
        if it.paused_at.is_some() {
            it.paused_by = operations::paused_by(it.projection, &recorded);
        }
        it.verification = outcome::last(&databases.read, projection)
            .await
            .context("cannot read the last verification")?;
        let verified_at = it.verification.map(|last| last.verified_at);
        let unverified_since = upgraded_at.filter(|at| Some(*at) > verified_at);
        it.unverified_since = unverified_since.map(timestamp::format);
    }
    // Nothing that clicks do hides the state of events.
    let mut clicks = clicks::read(&databases.read)
        .await
        .map_err(|error| error.to_string());
    if let Ok(clicks) = &mut clicks
        && clicks.paused_at.is_some()
    {
        clicks.paused_by = operations::paused_by(FollowerName::Clicks.name(), &recorded);
    }
    let mut status = StatusReport {
        at: timestamp::format(SystemClock.now()),
        log_epoch: end.epoch,
        projections,
        operations,
        failed_operations,
        recent_operations: operations::recent(recorded),
        relay: relay::read(&databases.log, &end).await?,
        clicks,
        snapshots: snapshot::read(&databases.read)
            .await
            .context("cannot read the oldest snapshot of the database")?,
        findings: Vec::new(),
    };
    status.findings = findings::of(&status);
    Ok(status)
}

fn serialize_readable<S: Serializer>(
    clicks: &Result<ClickStatus, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    clicks.as_ref().ok().serialize(serializer)
}

/// Returns the time of the last migration of the read tables; `None` if the log had no events between the first
/// and the last one: new read tables are filled by this release.
async fn upgraded_at(databases: &Databases) -> sqlx::Result<Option<OffsetDateTime>> {
    let migrations = "SELECT min(installed_on), max(installed_on) FROM read_model._sqlx_migrations";
    let (made_at, migrated_at): (Option<OffsetDateTime>, Option<OffsetDateTime>) =
        sqlx::query_as(migrations)
            .fetch_one(&databases.read)
            .await?;
    let beginnings: Vec<ReadFrom> = Shard::all()
        .map(|shard| ReadFrom { shard, after: 0 })
        .collect();
    let recorded = log::recording_times_after(&databases.log, &beginnings).await?;
    let had_events = |migrated_at: &OffsetDateTime| {
        let mut recorded = recorded.iter().flatten();
        recorded.any(|at| made_at.is_some_and(|made_at| made_at < *at) && at < migrated_at)
    };
    Ok(migrated_at.filter(had_events))
}

/// Returns, for each place, the age in seconds of the first event after the place; `None` if there is no such
/// event, or if the event cannot be read.
async fn ages_s(
    log: &PgPool,
    places: impl Iterator<Item = ReadFrom>,
) -> anyhow::Result<Vec<Option<f64>>> {
    let places: Vec<_> = places.collect();
    let recorded = log::recording_times_after(log, &places)
        .await
        .context("cannot read the age of events")?;
    let now = SystemClock.now();
    let age = |at: OffsetDateTime| f64::max((now - at).as_seconds_f64(), 0.0);
    Ok(recorded.into_iter().map(|at| at.map(age)).collect())
}

impl StatusReport {
    /// Keeps the parts that concern one projection, and the parts that concern all.
    #[must_use]
    pub fn narrowed_to(mut self, projection: Projection) -> Self {
        let name = projection.name();
        self.projections.retain(|it| it.projection == name);
        let is_own = |it: &RecordedCommand| it.projection.as_deref() == Some(name);
        self.operations.retain(is_own);
        self.recent_operations.retain(is_own);
        self.failed_operations.retain(is_own);
        self.findings = findings::of(&self);
        self
    }
}
