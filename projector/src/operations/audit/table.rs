//! Every SQL statement on `read_model.operations`.

use std::time::Duration;

use linkledger_core::timestamp;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;

use super::{Collision, Command, Outcome};
use crate::read_models::Projection;

/// What has come of an attempt to begin.
pub(super) enum Claim {
    /// The projections are held, by these rows.
    Held(Vec<i64>),
    /// Somebody else holds one of them; `None` if they have let go of it just now.
    Taken(Option<Holder>),
}

/// Who holds a projection.
pub(super) struct Holder {
    pub(super) collision: Collision,
    pub(super) lease_expires_at: OffsetDateTime,
}

pub(super) async fn insert_finished_in_tx(
    tx: &mut PgConnection,
    command: &Command<'_>,
    outcome: Outcome,
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

/// All of the projections, or none.
pub(super) async fn claim(
    pool: &PgPool,
    command: &Command<'_>,
    lease: Duration,
) -> sqlx::Result<Claim> {
    let mut projections: Vec<&str> = command.projections.iter().map(|it| it.name()).collect();
    // Two commands for the same projections must not wait for each other.
    projections.sort_unstable();
    let mut tx = pool.begin().await?;
    sqlx::query!(
        "
        UPDATE read_model.operations
        SET finished_at = clock_timestamp(), outcome = 'interrupted',
            detail = 'its process has died'
        WHERE projection = ANY($1) AND finished_at IS NULL
          AND lease_expires_at <= clock_timestamp()
        ",
        &projections as &[&str]
    )
    .execute(&mut *tx)
    .await?;
    let ids = sqlx::query_scalar!(
        "
        INSERT INTO read_model.operations
            (command, projection, subject, operator, reason, lease_expires_at)
        SELECT $1, projection, $3, $4, $5, clock_timestamp() + make_interval(secs => $6)
        FROM unnest($2::text[]) AS projection
        ON CONFLICT (projection) WHERE finished_at IS NULL DO NOTHING
        RETURNING operation_id
        ",
        command.name,
        &projections as &[&str],
        command.subject,
        command.operator,
        command.reason,
        lease.as_secs_f64()
    )
    .fetch_all(&mut *tx)
    .await?;
    if ids.len() == projections.len() {
        tx.commit().await?;
        return Ok(Claim::Held(ids));
    }
    tx.rollback().await?;
    Ok(Claim::Taken(holder(pool, &projections).await?))
}

async fn holder(pool: &PgPool, projections: &[&str]) -> sqlx::Result<Option<Holder>> {
    let row = sqlx::query!(
        r#"
        SELECT projection AS "projection!", command, operator, started_at,
               lease_expires_at AS "lease_expires_at!"
        FROM read_model.operations
        WHERE projection = ANY($1) AND finished_at IS NULL
        ORDER BY projection
        LIMIT 1
        "#,
        projections as &[&str]
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| Holder {
        collision: Collision {
            projection: row.projection,
            command: row.command,
            operator: row.operator,
            since: timestamp::format(row.started_at),
        },
        lease_expires_at: row.lease_expires_at,
    }))
}

/// `false`: somebody has taken the lease to be over.
pub(super) async fn renew(pool: &PgPool, ids: &[i64], lease: Duration) -> sqlx::Result<bool> {
    let result = sqlx::query!(
        "
        UPDATE read_model.operations
        SET lease_expires_at = clock_timestamp() + make_interval(secs => $2)
        WHERE operation_id = ANY($1) AND finished_at IS NULL
        ",
        ids,
        lease.as_secs_f64()
    )
    .execute(pool)
    .await?;
    Ok(result.rows_affected() == ids.len() as u64)
}

/// Whether the rows are those of a command that runs; it can't be taken for dead before the end of
/// the transaction.
pub(super) async fn lock_held_in_tx(tx: &mut PgConnection, ids: &[i64]) -> sqlx::Result<bool> {
    let held = sqlx::query_scalar!(
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
    Ok(held.len() == ids.len())
}

pub(super) async fn finish(
    pool: &PgPool,
    ids: &[i64],
    ends: &[(Projection, Outcome, String)],
) -> sqlx::Result<()> {
    let projections: Vec<_> = ends.iter().map(|it| it.0.name()).collect();
    let outcomes: Vec<_> = ends.iter().map(|it| it.1.name()).collect();
    let details: Vec<_> = ends.iter().map(|it| it.2.as_str()).collect();
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

/// One row at least: a command that is not of projections has none in its row.
fn names_or_null(projections: &[Projection]) -> Vec<Option<&'static str>> {
    if projections.is_empty() {
        return vec![None];
    }
    projections.iter().map(|it| Some(it.name())).collect()
}
