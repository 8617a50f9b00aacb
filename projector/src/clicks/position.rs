//! Table `clicks.positions`: how far each partition is counted.

use std::collections::BTreeMap;

use sqlx::{PgConnection, PgExecutor, PgPool};
use time::OffsetDateTime;

/// Position in a partition, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregationPosition {
    /// Offset of the next record.
    pub next_offset: i64,
    /// `ce_id` of the record before.
    pub last_record_id: Option<String>,
    /// Instant of the last batch.
    pub counted_at: Option<OffsetDateTime>,
    /// Start of a pause by an operator.
    pub paused_at: Option<OffsetDateTime>,
}

/// Reads the positions of all partitions.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_all(
    executor: impl PgExecutor<'_>,
) -> sqlx::Result<BTreeMap<u8, AggregationPosition>> {
    let rows = sqlx::query!(
        "SELECT partition, next_offset, last_record_id, counted_at, paused_at FROM clicks.positions"
    )
    .fetch_all(executor)
    .await?;
    let positions = rows.into_iter().filter_map(|row| {
        let position = AggregationPosition {
            next_offset: row.next_offset,
            last_record_id: row.last_record_id,
            counted_at: row.counted_at,
            paused_at: row.paused_at,
        };
        Some((u8::try_from(row.partition).ok()?, position))
    });
    Ok(positions.collect())
}

/// Locks all positions, and returns the begin of the transaction.
pub(crate) async fn lock_all_in_tx(tx: &mut PgConnection) -> sqlx::Result<OffsetDateTime> {
    let rows = sqlx::query_scalar!(
        r#"
        SELECT now() AS "now!" FROM clicks.positions
        ORDER BY partition
        FOR NO KEY UPDATE
        "#
    )
    .fetch_all(tx)
    .await?;
    rows.into_iter().next().ok_or(sqlx::Error::RowNotFound)
}

/// Pauses or resumes the aggregation in all partitions, whose rows the caller has locked.
pub(crate) async fn set_paused_in_tx(tx: &mut PgConnection, is_paused: bool) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE clicks.positions SET paused_at = CASE WHEN $1 THEN now() END
         WHERE (paused_at IS NOT NULL) <> $1",
        is_paused
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Locks the row of a position, and returns the begin of the transaction. Returns `None` if the stored position
/// is different, or the aggregation is paused. A locked row, as by a recount, is an error at once: the other
/// partitions do not wait.
pub(crate) async fn lock_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    position: &AggregationPosition,
) -> sqlx::Result<Option<OffsetDateTime>> {
    sqlx::query_scalar!(
        r#"
        SELECT now() AS "now!" FROM clicks.positions
        WHERE partition = $1 AND next_offset = $2
          AND last_record_id IS NOT DISTINCT FROM $3 AND paused_at IS NULL
        FOR NO KEY UPDATE NOWAIT
        "#,
        i16::from(partition),
        position.next_offset,
        position.last_record_id
    )
    .fetch_optional(tx)
    .await
}

/// Moves a locked position.
pub(crate) async fn advance_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    next_offset: i64,
    last_record_id: Option<&str>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "
        UPDATE clicks.positions SET next_offset = $2, last_record_id = $3, counted_at = now()
        WHERE partition = $1
        ",
        i16::from(partition),
        next_offset,
        last_record_id
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Returns the clock of the database.
pub(crate) async fn clock(pool: &PgPool) -> sqlx::Result<OffsetDateTime> {
    sqlx::query_scalar!(r#"SELECT clock_timestamp() AS "now!""#)
        .fetch_one(pool)
        .await
}

/// Records until when partitions are read to the end, unless another process has moved a position, or holds it: the
/// next answer about the ends comes within seconds. `ends` are partitions, each with its stored position and the instant
/// before the end was asked for, by the clock of the database.
pub(crate) async fn record_read_to_end(
    pool: &PgPool,
    ends: Vec<(i16, i64, OffsetDateTime)>,
) -> sqlx::Result<()> {
    let (partitions, next_offsets, instants): (Vec<_>, Vec<_>, Vec<_>) = ends.into_iter().collect();
    sqlx::query!(
        "
        UPDATE clicks.positions AS p SET read_to_end_at = greatest(p.read_to_end_at, e.at)
        FROM unnest($1::smallint[], $2::bigint[], $3::timestamptz[])
            AS e (partition, next_offset, at)
        WHERE p.partition = e.partition AND p.next_offset = e.next_offset
          AND p.partition IN (
              SELECT partition FROM clicks.positions WHERE partition = ANY($1)
              ORDER BY partition
              FOR NO KEY UPDATE SKIP LOCKED
          )
          AND p.paused_at IS NULL
        ",
        &partitions,
        &next_offsets,
        &instants
    )
    .execute(pool)
    .await?;
    Ok(())
}
