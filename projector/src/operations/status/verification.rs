//! Last verification of the live generation.

use linkledger_core::{
    databases::Databases,
    event_store::log::{self, ReadFrom},
    shard::Shard,
    timestamp,
};
use serde::Serialize;
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};

use crate::{operations::verify::outcome, read_models::Projection};

/// Last verification of the live generation.
#[derive(Debug, Clone, Serialize)]
pub struct LastVerification {
    /// Time of the verification.
    pub verified_at: String,
    /// Number of wrong rows.
    pub mismatches: i64,
}

/// Reads the last verification; `None` if there was none. Also returns `upgraded_at`, unless the read model
/// was verified since.
pub(super) async fn read(
    pool: &PgPool,
    projection: Projection,
    upgraded_at: Option<OffsetDateTime>,
) -> sqlx::Result<(Option<LastVerification>, Option<String>)> {
    let last = outcome::last(pool, projection).await?;
    let verified_at = OffsetDateTime::UNIX_EPOCH + Duration::seconds_f64(last.verified_at_s);
    let is_known = last.verified_at_s > 0.0;
    let verification = is_known.then(|| LastVerification {
        verified_at: timestamp::format(verified_at),
        mismatches: last.mismatches,
    });
    let unverified_since = upgraded_at.filter(|at| *at > verified_at);
    Ok((verification, unverified_since.map(timestamp::format)))
}

/// Returns the time of the last migration of the read tables; `None` if the log had no events between the first
/// and the last one: new read tables are filled by this release.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn upgraded_at(databases: &Databases) -> sqlx::Result<Option<OffsetDateTime>> {
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
