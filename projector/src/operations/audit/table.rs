//! SQL statements on `read_model.operations`.

use linkledger_core::timestamp;
use serde::Serialize;
use sqlx::{Connection as _, PgConnection, PgExecutor, PgPool};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{OperationOutcome, OperatorCommand};
use crate::read_models::Projection;

/// First key of the advisory lock of a running command; the second key is the id of the row.
const LOCK_CLASS: i32 = 0x6c6b_6f70;

/// Row of `read_model.operations`.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct RecordedCommand {
    #[serde(skip)]
    pub(super) operation_id: i64,
    /// Name of the command, as typed.
    pub command: String,
    /// Changed projection.
    pub projection: Option<String>,
    /// Changed account or generation.
    pub subject: Option<String>,
    /// Name of the operator.
    pub operator: String,
    /// Reason given by the operator.
    pub reason: Option<String>,
    /// Start of the command.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "timestamp::serialize")]
    pub started_at: OffsetDateTime,
    /// End of the command.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(serialize_with = "timestamp::serialize")]
    pub finished_at: Option<OffsetDateTime>,
    /// `done`, `failed` or `interrupted`; null before the end.
    pub outcome: Option<String>,
    /// Outcome in words.
    pub detail: Option<String>,
    /// True while the command runs; false after the death of the process.
    pub is_running: bool,
}

impl RecordedCommand {
    /// Returns the name of the command, the projection and the subject, such as `drop links generation 3`.
    pub fn title(&self) -> String {
        let of = [&self.projection, &self.subject].into_iter().flatten();
        let words = std::iter::once(&self.command).chain(of);
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Returns true if the process died before it recorded the end of the command.
    pub fn has_died(&self) -> bool {
        self.finished_at.is_none() && !self.is_running
    }

    /// Returns true if the command failed or its process died.
    pub fn has_failed(&self) -> bool {
        self.has_died() || self.outcome.as_deref() == Some("failed")
    }
}

/// Reads the latest `count` commands and all without a recorded end, newest first.
///
/// A command runs while a session holds the advisory lock of its row.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn recorded(
    executor: impl PgExecutor<'_>,
    count: i64,
) -> sqlx::Result<Vec<RecordedCommand>> {
    sqlx::query_as!(
        RecordedCommand,
        r#"
        SELECT operation_id AS "operation_id!", command AS "command!", projection, subject,
               operator AS "operator!", reason, started_at AS "started_at!", finished_at, outcome,
               detail,
               finished_at IS NULL AND EXISTS (
                   SELECT FROM pg_locks
                   WHERE locktype = 'advisory' AND objsubid = 2
                     AND database = (SELECT oid FROM pg_database
                                     WHERE datname = current_database())
                     AND classid::bigint = $1 AND objid::bigint = operation_id
               ) AS "is_running!"
        FROM (
            SELECT * FROM read_model.operations WHERE finished_at IS NULL
            UNION
            (SELECT * FROM read_model.operations ORDER BY operation_id DESC LIMIT $2)
        ) AS latest
        ORDER BY operation_id DESC
        "#,
        i64::from(LOCK_CLASS),
        count
    )
    .fetch_all(executor)
    .await
}

/// Reads the commands without a recorded end that change one of the projections.
pub(super) async fn unfinished(
    executor: impl PgExecutor<'_>,
    projections: &[Projection],
) -> sqlx::Result<Vec<RecordedCommand>> {
    let mut unfinished = recorded(executor, 0).await?;
    let is_chosen = |name: &str| projections.iter().any(|it| it.name() == name);
    unfinished.retain(|it| it.projection.as_deref().is_some_and(is_chosen));
    Ok(unfinished)
}

/// Records a finished command in the transaction of its effect: one row for each projection, or one
/// row without a projection.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn record_in_tx(
    tx: &mut PgConnection,
    command: &OperatorCommand<'_>,
    outcome: OperationOutcome,
    detail: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "
        INSERT INTO read_model.operations
            (command, projection, subject, operator, reason, finished_at, outcome, detail)
        SELECT $1, projection, $3, $4, $5, clock_timestamp(), $6, $7
        FROM unnest($2::text[]) AS projection
        ",
        command.name,
        &names_or_null(command.projections) as &[Option<&str>],
        command.subject,
        command.operator,
        command.reason,
        outcome.name(),
        detail
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Records that a long command runs, and locks the rows in the session. Returns `None` and changes
/// nothing if another command works on one of the projections.
pub(super) async fn begin(
    session: &mut PgConnection,
    command: &OperatorCommand<'_>,
) -> sqlx::Result<Option<Vec<i64>>> {
    let mut projections: Vec<&str> = command.projections.iter().map(|it| it.name()).collect();
    // Always in the same order, so that two commands on the same projections cannot deadlock.
    projections.sort_unstable();
    let mut tx = session.begin().await?;
    let mut dead = unfinished(&mut *tx, command.projections).await?;
    dead.retain(RecordedCommand::has_died);
    let dead: Vec<_> = dead.iter().map(|it| it.operation_id).collect();
    sqlx::query!(
        "
        UPDATE read_model.operations
        SET finished_at = clock_timestamp(), outcome = 'interrupted',
            detail = 'its process has died'
        WHERE operation_id = ANY($1) AND finished_at IS NULL
        ",
        &dead
    )
    .execute(&mut *tx)
    .await?;
    let ids = sqlx::query_scalar!(
        "
        INSERT INTO read_model.operations (command, projection, subject, operator, reason)
        SELECT $1, projection, $3, $4, $5
        FROM unnest($2::text[]) AS projection
        ON CONFLICT (projection) WHERE finished_at IS NULL DO NOTHING
        RETURNING operation_id
        ",
        command.name,
        &projections as &[&str],
        command.subject,
        command.operator,
        command.reason
    )
    .fetch_all(&mut *tx)
    .await?;
    if ids.len() < projections.len() {
        tx.rollback().await?;
        return Ok(None);
    }
    // The lock outlives the transaction, so a committed row of a running command is always locked.
    lock(&mut tx, &ids).await?;
    tx.commit().await?;
    Ok(Some(ids))
}

/// Locks the rows until the end of the session. Never waits: only the command itself locks its
/// rows.
pub(super) async fn lock(session: &mut PgConnection, ids: &[i64]) -> sqlx::Result<()> {
    sqlx::query!(
        "SELECT pg_advisory_lock($1, id::integer) FROM unnest($2::bigint[]) AS id",
        LOCK_CLASS,
        ids
    )
    .execute(session)
    .await?;
    Ok(())
}

/// Returns true if the rows are those of a running command.
pub(super) async fn are_unfinished(session: &mut PgConnection, ids: &[i64]) -> sqlx::Result<bool> {
    let unfinished = recorded(session, 0).await?;
    let own = unfinished
        .iter()
        .filter(|it| ids.contains(&it.operation_id));
    Ok(own.count() == ids.len())
}

/// Returns true if the rows are those of a running command. No other command can mark the rows as
/// interrupted before the end of the transaction.
pub(super) async fn are_unfinished_in_tx(tx: &mut PgConnection, ids: &[i64]) -> sqlx::Result<bool> {
    let unfinished = sqlx::query_scalar!(
        "
        SELECT operation_id FROM read_model.operations
        WHERE operation_id = ANY($1) AND finished_at IS NULL
        ORDER BY operation_id
        FOR SHARE
        ",
        ids
    )
    .fetch_all(tx)
    .await?;
    Ok(unfinished.len() == ids.len())
}

pub(super) async fn finish(
    pool: &PgPool,
    ids: &[i64],
    ends: &[(Projection, (OperationOutcome, String))],
) -> sqlx::Result<()> {
    let projections: Vec<_> = ends.iter().map(|it| it.0.name()).collect();
    let outcomes: Vec<_> = ends.iter().map(|it| it.1.0.name()).collect();
    let details: Vec<_> = ends.iter().map(|it| it.1.1.as_str()).collect();
    sqlx::query!(
        "
        UPDATE read_model.operations AS o
        SET finished_at = clock_timestamp(), outcome = e.outcome, detail = e.detail
        FROM unnest($2::text[], $3::text[], $4::text[]) AS e (projection, outcome, detail)
        WHERE o.operation_id = ANY($1) AND o.finished_at IS NULL AND o.projection = e.projection
        ",
        ids,
        &projections as &[&str],
        &outcomes as &[&str],
        &details as &[&str]
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Returns the names, or one NULL: a command without projections is recorded in one row.
fn names_or_null(projections: &[Projection]) -> Vec<Option<&'static str>> {
    if projections.is_empty() {
        return vec![None];
    }
    projections.iter().map(|it| Some(it.name())).collect()
}
