//! What of operators' commands the metrics tell: those that have failed, for an alert, and how much
//! a generation that is built still lacks. The commands themselves are gone by then.

use std::{collections::HashSet, time::Duration};

use linkledger_core::{
    event_store::time_limit::{ANSWER_TIME_MAX, within},
    metrics::{OPERATION_FAILED, REBUILD_REMAINING_EVENTS},
};
use metrics::gauge;
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;

use crate::{pipeline::periodic::Periodic, read_models::Projection};

/// How often the gauges are set.
const INTERVAL: Duration = Duration::from_secs(5);
/// Of so many commands, the latest ones, it is looked what has become of them.
const COMMANDS_MAX: i64 = 1_000;

/// The last command of a name on a projection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LastCommand {
    /// Its name, as it is typed.
    pub command: String,
    /// What it changes.
    pub projection: String,
    /// It has not done what it was asked, and was not told to end: it has failed, or its process
    /// has died.
    pub has_failed: bool,
    /// When it ended; a process that has died did not say.
    pub finished_at: Option<OffsetDateTime>,
    /// How it has ended, in words.
    pub detail: Option<String>,
}

/// The last commands of the last day.
///
/// # Errors
/// When the database does not answer.
pub async fn last_commands(pool: &PgPool) -> sqlx::Result<Vec<LastCommand>> {
    sqlx::query_as!(
        LastCommand,
        r#"
        SELECT DISTINCT ON (projection, command)
               command, projection AS "projection!",
               CASE WHEN finished_at IS NULL THEN lease_expires_at <= clock_timestamp()
                    ELSE outcome = 'failed' END AS "has_failed!",
               finished_at, detail
        FROM read_model.operations
        WHERE operation_id > (SELECT max(operation_id) - $1 FROM read_model.operations)
          AND projection IS NOT NULL
          AND coalesce(finished_at, lease_expires_at) > clock_timestamp() - interval '1 day'
        ORDER BY projection, command, operation_id DESC
        "#,
        COMMANDS_MAX
    )
    .fetch_all(pool)
    .await
}

/// How many events the generation that is built lacks; those of projections without one are 0.
///
/// # Errors
/// When the database does not answer.
pub async fn remaining_events(pool: &PgPool) -> sqlx::Result<Vec<(Projection, i64)>> {
    let rows = sqlx::query!(
        r#"
        SELECT projection, sum(head - position)::bigint AS "remaining!"
        FROM read_model.checkpoints JOIN event_store.log_shards USING (shard)
        WHERE role = 'building'
        GROUP BY projection
        "#
    )
    .fetch_all(pool)
    .await?;
    let remaining_of = |projection: Projection| {
        let row = rows.iter().find(|row| row.projection == projection.name());
        (projection, row.map_or(0, |row| row.remaining))
    };
    Ok(Projection::ALL.map(remaining_of).to_vec())
}

/// Tells the metrics of it until the shutdown. Nothing depends on it: a failure is tried again.
///
/// # Errors
/// Never.
pub async fn keep_reported(pool: PgPool, shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut told = HashSet::new();
    let mut periodic = Periodic::new(INTERVAL, shutdown);
    while periodic.is_due().await {
        if let Err(error) = within(ANSWER_TIME_MAX, report(&pool, &mut told)).await {
            tracing::debug!(error = %error, "can't read what operators' commands have come to");
        }
    }
    Ok(())
}

/// `told`: the commands that the metrics show, by name and projection.
async fn report(pool: &PgPool, told: &mut HashSet<(String, String)>) -> sqlx::Result<()> {
    let last_commands = last_commands(pool).await?;
    let mut forgotten = std::mem::take(told);
    for last in last_commands {
        let LastCommand {
            command,
            projection,
            has_failed,
            ..
        } = last;
        show(&command, &projection, has_failed);
        forgotten.remove(&(command.clone(), projection.clone()));
        told.insert((command, projection));
    }
    for (command, projection) in forgotten {
        show(&command, &projection, false);
    }
    for (projection, remaining) in remaining_events(pool).await? {
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        let remaining = remaining as f64;
        gauge!(REBUILD_REMAINING_EVENTS, "projection" => projection.name()).set(remaining);
    }
    Ok(())
}

fn show(command: &str, projection: &str, has_failed: bool) {
    let labels = [
        ("command", command.to_owned()),
        ("projection", projection.to_owned()),
    ];
    gauge!(OPERATION_FAILED, &labels).set(if has_failed { 1.0 } else { 0.0 });
}
