//! The pause of a projection, by an operator, or because a table of the projection is at fault.
//!
//! A pause is stored in the live checkpoints of the projection. Every writer of the rows locks
//! these checkpoints until its commit: once a pause is committed, the last batch is finished, and
//! no process can write another one, not even a process that was frozen in between.

use linkledger_core::projection::Projection;
use sqlx::PgConnection;

/// Locks the live checkpoints: waits for running batches and blocks the next ones.
///
/// # Errors
/// Returns an error if the database fails, or a batch does not end before the lock timeout.
pub async fn lock_in_tx(tx: &mut PgConnection, projections: &[Projection]) -> sqlx::Result<()> {
    sqlx::query!(
        "
        SELECT FROM read_model.checkpoints
        WHERE projection = ANY($1) AND role = 'live'
        ORDER BY projection, generation, shard
        FOR UPDATE
        ",
        &names(projections) as &[&str]
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Pauses or resumes the projections, whose live checkpoints the caller has locked.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn set_in_tx(
    tx: &mut PgConnection,
    projections: &[Projection],
    is_paused: bool,
) -> sqlx::Result<()> {
    sqlx::query!(
        "
        UPDATE read_model.checkpoints
        SET paused_at = CASE WHEN $2 THEN statement_timestamp() END
        WHERE projection = ANY($1) AND role = 'live' AND (paused_at IS NOT NULL) <> $2
        ",
        &names(projections) as &[&str],
        is_paused
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Returns the names of the projections, as stored.
pub(crate) fn names(projections: &[Projection]) -> Vec<&'static str> {
    projections.iter().map(|it| it.name()).collect()
}
