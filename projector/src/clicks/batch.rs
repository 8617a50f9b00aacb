//! A batch: the next records of one partition, counted in one transaction.

use linkledger_clicks::{
    RecorderId,
    tally::{PartitionRecord, Sequences, Tally, TallyLimits},
};
use linkledger_event_store::transaction::PoolTransaction;
use linkledger_service::fail_point;
use sqlx::{Acquire as _, PgConnection, PgPool};
use std::collections::BTreeSet;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    position::{self, AggregationPosition},
    rows::{self, Counting},
};
use crate::pipeline::retry::is_refusal;

/// State in which records are counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountStart<'a> {
    /// Counted sequences of the recorders.
    pub(super) sequences: &'a Sequences,
    /// Instant of the count.
    pub(super) now: OffsetDateTime,
    /// First count of the records, or a recount.
    pub(super) counting: Counting,
}

/// Counts the first records of a partition within the limits. Returns `None` and writes no row if the stored
/// position is different, moved by a second process, or if an operator has paused the aggregation.
///
/// # Errors
/// Returns an error if the database fails. The outcome of the commit may be unknown then; the
/// next batch learns it from the position.
pub(super) async fn count<'a>(
    pool: &PgPool,
    partition: u8,
    position: &AggregationPosition,
    records: impl IntoIterator<Item = &'a PartitionRecord> + Clone,
    limits: &mut TallyLimits,
) -> sqlx::Result<Option<Tally>> {
    let mut tx = PoolTransaction::begin(pool).await?;
    let locked = position::lock_in_tx(&mut tx, partition, position).await?;
    let Some(now) = locked else {
        tx.rollback().await?;
        return Ok(None);
    };
    let taken = records.clone().into_iter().take(limits.records_max);
    let recorders: BTreeSet<RecorderId> =
        taken.filter_map(|record| Some(record.place?.0)).collect();
    let sequences = sequences_in_tx(&mut tx, partition, &recorders).await?;
    let start = CountStart {
        sequences: &sequences,
        now,
        counting: Counting::First,
    };
    let tally = add_first_in_tx(&mut tx, partition, records, start, limits).await?;
    let last_record_id = tally.last_record_id.as_deref();
    position::advance_in_tx(&mut tx, partition, tally.next_offset, last_record_id).await?;
    put_sequences_in_tx(&mut tx, partition, &tally.sequences).await?;
    fail_point::reached("clicks.written");
    tx.commit().await?;
    fail_point::reached("clicks.counted");
    Ok(Some(tally))
}

/// Adds the statistics of the first records within the limits, and returns their tally. What the database refuses is
/// halved, down to the one record that is refused: that record is counted as unreadable. The limits stay halved,
/// because refused records tend to be neighbours.
pub(super) async fn add_first_in_tx<'a>(
    tx: &mut PgConnection,
    partition: u8,
    records: impl IntoIterator<Item = &'a PartitionRecord> + Clone,
    start: CountStart<'_>,
    limits: &mut TallyLimits,
) -> sqlx::Result<Tally> {
    let CountStart {
        sequences,
        now,
        counting,
    } = start;
    loop {
        let tally = Tally::of(records.clone(), sequences.clone(), now, *limits);
        let mut savepoint = tx.begin().await?;
        let added = rows::add_in_tx(&mut savepoint, partition, &tally.statistics, counting).await;
        let error = match added {
            Ok(()) => {
                savepoint.commit().await?;
                return Ok(tally);
            }
            Err(error) if is_refusal(&error) => error,
            Err(error) => return Err(error),
        };
        savepoint.rollback().await?;
        if tally.records > 1 {
            limits.records_max = tally.records / 2;
            continue;
        }
        tracing::error!(
            error = &error as &dyn std::error::Error,
            partition,
            offset = tally.next_offset - 1,
            "the database refuses a click; it is counted as unreadable"
        );
        let first = records.clone().into_iter().next().cloned();
        let skipped = first.map(|record| PartitionRecord {
            click: None,
            ..record
        });
        return Ok(Tally::of(&skipped, sequences.clone(), now, *limits));
    }
}

/// Reads the counted sequences of recorders.
pub(super) async fn sequences_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    recorders: &BTreeSet<RecorderId>,
) -> sqlx::Result<Sequences> {
    let recorders: Vec<Uuid> = recorders.iter().map(|recorder| recorder.0).collect();
    let rows = sqlx::query!(
        "
        SELECT recorder_id, sequence FROM clicks.sequences
        WHERE partition = $1 AND recorder_id = ANY($2)
        ",
        i16::from(partition),
        &recorders
    )
    .fetch_all(tx)
    .await?;
    let rows = rows.into_iter();
    Ok(Sequences::counted(rows.map(|row| {
        (RecorderId(row.recorder_id), row.sequence.cast_unsigned())
    })))
}

async fn put_sequences_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    sequences: &Sequences,
) -> sqlx::Result<()> {
    let recorders: Vec<Uuid> = sequences.changes().map(|it| it.recorder_id.0).collect();
    if recorders.is_empty() {
        return Ok(());
    }
    let numbers = sequences.changes().map(|it| it.sequence.cast_signed());
    let missing = sequences.changes().map(|it| it.missing.cast_signed());
    sqlx::query!(
        "
        INSERT INTO clicks.sequences AS s
            (partition, recorder_id, sequence, missing, counted_at)
        SELECT $1, c.recorder_id, c.sequence, c.missing, now()
        FROM unnest($2::uuid[], $3::bigint[], $4::bigint[]) AS c (recorder_id, sequence, missing)
        ON CONFLICT (partition, recorder_id) DO UPDATE
        SET sequence = excluded.sequence, missing = s.missing + excluded.missing,
            counted_at = excluded.counted_at
        ",
        i16::from(partition),
        &recorders,
        &numbers.collect::<Vec<i64>>(),
        &missing.collect::<Vec<i64>>()
    )
    .execute(tx)
    .await?;
    Ok(())
}
