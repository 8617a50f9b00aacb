//! Recount: the figures of all UTC days since one day, made again from the topic in one transaction.
//!
//! The transaction locks all positions, so nothing else writes figures meanwhile, and readers see the old figures
//! until the commit. Positions and sequences stay: the counting waits, and continues after the commit where it was.
//! Repeats within the topic are dropped by sequences in memory.

mod figures;
mod plan;
mod topic;

use anyhow::bail;
use linkledger_core::{
    click::{
        RecorderId,
        tally::{PartitionRecord, Sequences, Tally},
    },
    databases::Databases,
    event_store::{log_meta, transaction::PoolTransaction},
    fail_point,
    kafka_config::KafkaConfig,
};
use sqlx::{Acquire as _, PgConnection, PgPool};
use std::collections::{BTreeMap, BTreeSet};
use time::{Date, OffsetDateTime, UtcOffset};

use self::{plan::PartitionRange, topic::TopicReader};
use super::{batch, claimed_partition::LIMITS_MAX, partition_days::PartitionDays, position, rows};
use crate::{
    pipeline::retry::{Retries, is_refusal},
    progress::ProgressReport,
};

pub use self::plan::RecountRefusal;

/// Sessions of a recount: one of the transaction, one that creates partitions of tables.
pub const CONNECTIONS_MAX: u32 = 2;

/// Begins the transaction. The lock of a position waits for the running batch; a pause between two statements
/// waits for the broker. Postgres ends a statement whose client has gone.
const BEGIN: &str = "BEGIN; \
                     SET LOCAL statement_timeout = '1h'; \
                     SET LOCAL idle_in_transaction_session_timeout = '60s'; \
                     SET LOCAL lock_timeout = '30s'; \
                     SET LOCAL client_connection_check_interval = '2s'";

/// Begins the transaction of a preview, which locks nothing.
const BEGIN_READ_ONLY: &str = "BEGIN READ ONLY; \
                               SET LOCAL statement_timeout = '1h'; \
                               SET LOCAL idle_in_transaction_session_timeout = '60s'; \
                               SET LOCAL client_connection_check_interval = '2s'";

/// Figures that are counted again.
#[derive(Debug, Clone, Copy)]
pub struct RecountScope {
    /// First UTC day.
    pub from: Date,
    /// True if figures with fewer clicks than before are accepted.
    pub accepts_fewer: bool,
}

/// Clicks before and after a recount, bots included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recounted {
    /// Records that were read.
    pub records: u64,
    /// Records of them with clicks of the days, repeats included.
    pub records_of_days: u64,
    /// Clicks of the replaced figures.
    pub clicks_before: i64,
    /// Clicks of the new figures.
    pub clicks: i64,
}

/// A recount in progress: nothing is visible to others before the commit.
pub struct Recount<'a> {
    pool: &'a PgPool,
    reader: TopicReader,
    scope: RecountScope,
    days: PartitionDays,
    progress: &'a ProgressReport,
}

impl<'a> Recount<'a> {
    /// Creates a consumer of the topic of clicks, which `kafka` names.
    ///
    /// # Errors
    /// Returns an error if the database fails, or the Kafka client refuses the settings.
    pub async fn new(
        databases: &'a Databases,
        kafka: &KafkaConfig,
        scope: RecountScope,
        progress: &'a ProgressReport,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            pool: &databases.read,
            reader: TopicReader::open(kafka, log_meta::click_record_key(&databases.log).await?)?,
            scope,
            days: PartitionDays::default(),
            progress,
        })
    }

    /// Reads the records, and returns their numbers, and the clicks of the figures. Changes nothing.
    ///
    /// # Errors
    /// Returns [`RecountRefusal`], or an error of the database or of Kafka.
    pub async fn preview(&mut self) -> anyhow::Result<Recounted> {
        let mut tx = PoolTransaction::begin_with(self.pool, BEGIN_READ_ONLY).await?;
        let ranges = self.plan(&mut tx).await?;
        figures::set_scans_in_tx(&mut tx, true).await?;
        let before = figures::clicks_by_partition(&mut tx, self.scope.from).await?;
        tx.rollback().await?;
        let now = position::clock(self.pool).await?;
        self.begin_progress(&ranges);
        let mut read = ReadRecords::default();
        for range in &ranges {
            let mut reading = self.reader.read(range.partition, range.begin)?;
            loop {
                let mut records = reading
                    .next(range.topic_end, LIMITS_MAX.records_max)
                    .await?;
                if records.is_empty() {
                    break;
                }
                keep_clicks_since(self.scope.from, &mut records, now);
                self.progress.advance(read.add(range, &records));
            }
        }
        Ok(Recounted {
            records: read.all,
            records_of_days: read.of_days,
            clicks_before: before.values().sum(),
            clicks: 0,
        })
    }

    /// Begins the transaction of the recount. No other recount is in progress until the transaction ends.
    ///
    /// # Errors
    /// Returns [`RecountRefusal::InProgress`], or an error of the database.
    pub async fn begin(&self) -> anyhow::Result<PoolTransaction> {
        let mut tx = PoolTransaction::begin_with(self.pool, BEGIN).await?;
        if !figures::try_lock_in_tx(&mut tx).await? {
            bail!(RecountRefusal::InProgress);
        }
        Ok(tx)
    }

    /// Replaces the figures within a transaction of [`Self::begin`], which the caller commits.
    ///
    /// # Errors
    /// Returns [`RecountRefusal`], or an error of the database or of Kafka.
    pub async fn replace_in_tx(&mut self, tx: &mut PgConnection) -> anyhow::Result<Recounted> {
        let now = position::lock_all_in_tx(tx).await?;
        let ranges = self.plan(tx).await?;
        figures::set_scans_in_tx(tx, true).await?;
        let before = figures::clicks_by_partition(tx, self.scope.from).await?;
        self.begin_progress(&ranges);
        figures::delete_in_tx(tx, self.scope.from).await?;
        figures::set_scans_in_tx(tx, false).await?;
        let mut read = ReadRecords::default();
        for range in &ranges {
            self.count_in_tx(tx, range, now, &mut read).await?;
        }
        figures::set_scans_in_tx(tx, true).await?;
        let after = figures::clicks_by_partition(tx, self.scope.from).await?;
        if !self.scope.accepts_fewer {
            ensure_not_fewer(self.scope.from, &before, &after)?;
        }
        fail_point::reached("clicks.recounted");
        Ok(Recounted {
            records: read.all,
            records_of_days: read.of_days,
            clicks_before: before.values().sum(),
            clicks: after.values().sum(),
        })
    }

    async fn plan(&self, session: &mut PgConnection) -> anyhow::Result<Vec<PartitionRange>> {
        plan::ensure_countable(self.scope.from, position::clock(self.pool).await?)?;
        let positions = position::read_all(session).await?;
        plan::plan(&self.reader, &positions, self.scope).await
    }

    fn begin_progress(&self, ranges: &[PartitionRange]) {
        let records: u64 = ranges.iter().map(PartitionRange::records).sum();
        self.progress.enter("counting again", records, "records");
    }

    /// Counts the records of a partition, and adds their numbers. Reads to the end of the topic: a counting must
    /// not drop later clicks that the recount has deleted.
    async fn count_in_tx(
        &mut self,
        tx: &mut PgConnection,
        range: &PartitionRange,
        now: OffsetDateTime,
        read: &mut ReadRecords,
    ) -> anyhow::Result<()> {
        let (partition, mut sequences) = (range.partition, Sequences::default());
        let mut reading = self.reader.read(partition, range.begin)?;
        loop {
            let mut records = reading
                .next(range.topic_end, LIMITS_MAX.records_max)
                .await?;
            if records.is_empty() {
                return Ok(());
            }
            let days = keep_clicks_since(self.scope.from, &mut records, now);
            ensure_days(&mut self.days, self.pool, days).await?;
            let end = records.partition_point(|it| it.offset < range.next_offset);
            let (counted, later) = records.split_at(end);
            add_in_tx(tx, partition, now, counted, &mut sequences).await?;
            ensure_new_in_tx(tx, partition, later, &sequences).await?;
            self.progress.advance(read.add(range, &records));
        }
    }
}

/// Numbers of records that were read.
#[derive(Debug, Default)]
struct ReadRecords {
    all: u64,
    of_days: u64,
}

impl ReadRecords {
    /// Adds the counted ones of the records, which have only clicks of the days. Returns their number.
    fn add(&mut self, range: &PartitionRange, records: &[PartitionRecord]) -> u64 {
        let end = records.partition_point(|it| it.offset < range.next_offset);
        let of_days = records[..end].iter().filter(|it| it.click.is_some());
        self.of_days += of_days.count() as u64;
        self.all += end as u64;
        end as u64
    }
}

/// Creates the partitions of days. A lock of another session on a table is waited for.
async fn ensure_days(
    known: &mut PartitionDays,
    pool: &PgPool,
    days: BTreeSet<Date>,
) -> anyhow::Result<()> {
    let mut retries = Retries::default();
    while let Err(error) = known.ensure(pool, days.clone()).await {
        retries.wait_after(error.into()).await?;
    }
    Ok(())
}

/// Ensures that the counting will count the clicks of later records. The counting skips a
/// sequence that it has counted from an earlier topic; a click whose sequence the recount has not counted would be
/// lost.
async fn ensure_new_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    later: &[PartitionRecord],
    recounted: &Sequences,
) -> anyhow::Result<()> {
    let clicks = later.iter().filter(|record| record.click.is_some());
    let places: Vec<_> = clicks.filter_map(|record| record.place).collect();
    if places.is_empty() {
        return Ok(());
    }
    let recorders = places.iter().map(|(recorder, _)| *recorder).collect();
    let stored = batch::sequences_in_tx(tx, partition, &recorders).await?;
    let mut places = places.into_iter();
    if places.any(|(recorder, sequence)| {
        stored.has(recorder, sequence) && !recounted.has(recorder, sequence)
    }) {
        bail!(RecountRefusal::Unread { partition });
    }
    Ok(())
}

/// Drops the clicks before the first day from their records, whose sequences still count. Returns the other days.
fn keep_clicks_since(
    from: Date,
    records: &mut [PartitionRecord],
    now: OffsetDateTime,
) -> BTreeSet<Date> {
    let mut days = BTreeSet::new();
    for record in records {
        let Some(click) = &record.click else {
            continue;
        };
        let day = click.clicked_at.to_offset(UtcOffset::UTC).date();
        if day < from {
            record.click = None;
        } else if PartitionRecord::is_plausible(click, now) {
            days.insert(day);
        }
    }
    days
}

/// Ensures that no partition of the topic has fewer clicks than the figures had.
fn ensure_not_fewer(
    from: Date,
    before: &BTreeMap<i16, i64>,
    after: &BTreeMap<i16, i64>,
) -> Result<(), RecountRefusal> {
    for (partition, before) in before {
        let after = after.get(partition).copied().unwrap_or(0);
        if after < *before {
            return Err(RecountRefusal::Fewer {
                partition: *partition,
                from,
                before: *before,
                after,
            });
        }
    }
    Ok(())
}

/// Adds the figures of records. A record that the database refuses is skipped, as in the counting.
async fn add_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    now: OffsetDateTime,
    records: &[PartitionRecord],
    sequences: &mut Sequences,
) -> sqlx::Result<()> {
    let (mut rest, mut limits) = (records, LIMITS_MAX);
    while !rest.is_empty() {
        let counted = sequences.clone();
        let tally = Tally::of(rest, counted, now, limits);
        let mut savepoint = tx.begin().await?;
        let added = rows::add_in_tx(&mut savepoint, partition, &tally.figures).await;
        match added {
            Ok(()) => {
                savepoint.commit().await?;
                rest = &rest[tally.records..];
                *sequences = tally.sequences;
                limits.records_max = (limits.records_max * 2).min(LIMITS_MAX.records_max);
            }
            Err(error) if is_refusal(&error) => {
                savepoint.rollback().await?;
                limits.records_max = tally.records / 2;
                if tally.records == 1 {
                    warn_of_refused(partition, &rest[0], &error);
                    rest = &rest[1..];
                    *sequences = tally.sequences;
                    limits.records_max = 1;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn warn_of_refused(partition: u8, record: &PartitionRecord, error: &sqlx::Error) {
    tracing::warn!(
        error = error as &dyn std::error::Error,
        partition,
        offset = record.offset,
        recorder = ?record.place.map(|(RecorderId(recorder), _)| recorder),
        "the database refuses a click; it is skipped"
    );
}
