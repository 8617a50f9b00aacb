//! Recount: the statistics of all UTC days since one day, made again from the topic in one transaction.
//!
//! The transaction locks all positions, so nothing else writes statistics meanwhile, and readers see the old statistics
//! until the commit. Positions and sequences stay: the aggregation waits, and continues after the commit where it was.
//! Repeats within the topic are dropped by sequences in memory. Rows of which events of the log are made stay too: no
//! click becomes an event twice.

mod plan;
mod statistics;
mod topic;

use anyhow::bail;
use linkledger_clicks::tally::{PartitionRecord, Sequences};
use linkledger_event_store::{log_meta, transaction::PoolTransaction};
use linkledger_service::{databases::Databases, fail_point, kafka_config::KafkaConfig};
use sqlx::{PgConnection, PgPool};
use std::collections::{BTreeMap, BTreeSet};
use time::{Date, OffsetDateTime};

use self::{plan::PartitionRange, topic::TopicReader};
use super::{
    batch::{self, CountStart},
    claimed_partition::{LIMITS_MAX, widened},
    partition_days::{PartitionDays, day_of, days_of},
    position,
    rows::Counting,
};
use crate::{pipeline::retry::Retries, progress::ProgressReport};

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

/// Statistics that are counted again.
#[derive(Debug, Clone, Copy)]
pub struct RecountScope {
    /// First UTC day.
    pub from: Date,
    /// True if statistics with fewer clicks than before are accepted.
    pub accepts_fewer: bool,
}

/// Clicks before and after a recount, bots included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recounted {
    /// Records that were read.
    pub records: u64,
    /// Records of them with clicks of the days, repeats included.
    pub records_of_days: u64,
    /// Clicks of the replaced statistics.
    pub clicks_before: i64,
    /// Clicks of the new statistics.
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

    /// Reads the records, and returns their numbers, and the clicks of the statistics. Changes nothing.
    ///
    /// # Errors
    /// Returns [`RecountRefusal`], or an error of the database or of Kafka.
    pub async fn preview(&mut self) -> anyhow::Result<Recounted> {
        let mut tx = PoolTransaction::begin_with(self.pool, BEGIN).await?;
        let read_only = sqlx::query("SET TRANSACTION READ ONLY");
        read_only.execute(&mut *tx).await?;
        let (ranges, before) = self.plan(&mut tx).await?;
        tx.rollback().await?;
        let mut recounted = Recounted {
            clicks_before: before.values().sum(),
            ..Recounted::default()
        };
        for range in &ranges {
            self.read(range, None, &mut recounted).await?;
        }
        Ok(recounted)
    }

    /// Begins the transaction of the recount. No other recount is in progress until the transaction ends.
    ///
    /// # Errors
    /// Returns [`RecountRefusal::InProgress`], or an error of the database.
    pub async fn begin(&self) -> anyhow::Result<PoolTransaction> {
        let mut tx = PoolTransaction::begin_with(self.pool, BEGIN).await?;
        if !statistics::try_lock_in_tx(&mut tx).await? {
            bail!(RecountRefusal::InProgress);
        }
        Ok(tx)
    }

    /// Replaces the statistics within a transaction of [`Self::begin`], which the caller commits.
    ///
    /// # Errors
    /// Returns [`RecountRefusal`], or an error of the database or of Kafka.
    pub async fn replace_in_tx(&mut self, tx: &mut PgConnection) -> anyhow::Result<Recounted> {
        let now = position::lock_all_in_tx(tx).await?;
        let (ranges, before) = self.plan(tx).await?;
        let mut recounted = Recounted {
            clicks_before: before.values().sum(),
            ..Recounted::default()
        };
        statistics::delete_in_tx(tx, self.scope.from).await?;
        statistics::set_scans_in_tx(tx, false).await?;
        for range in &ranges {
            self.read(range, Some((&mut *tx, now)), &mut recounted)
                .await?;
        }
        statistics::set_scans_in_tx(tx, true).await?;
        let after = statistics::clicks_by_partition(tx, self.scope.from).await?;
        if !self.scope.accepts_fewer {
            ensure_not_fewer(self.scope.from, &before, &after)?;
        }
        fail_point::reached("clicks.recounted");
        recounted.clicks = after.values().sum();
        Ok(recounted)
    }

    /// Returns the records to read, and the clicks of the statistics by partition.
    async fn plan(
        &self,
        session: &mut PgConnection,
    ) -> anyhow::Result<(Vec<PartitionRange>, BTreeMap<i16, i64>)> {
        plan::ensure_countable(self.scope.from, position::clock(self.pool).await?)?;
        let positions = position::read_all(&mut *session).await?;
        let ranges = plan::plan(&self.reader, &positions, self.scope).await?;
        statistics::set_scans_in_tx(session, true).await?;
        let before = statistics::clicks_by_partition(session, self.scope.from).await?;
        let records: u64 = ranges.iter().map(PartitionRange::records).sum();
        self.progress.enter("counting again", records, "records");
        Ok((ranges, before))
    }

    /// Reads the records of a partition, adds their numbers, and counts them in the transaction that began at the given
    /// instant, if there is one. Reads to the end of the topic: an aggregation must not drop later clicks that the
    /// recount has deleted.
    async fn read(
        &mut self,
        range: &PartitionRange,
        mut counting: Option<(&mut PgConnection, OffsetDateTime)>,
        recounted: &mut Recounted,
    ) -> anyhow::Result<()> {
        let (partition, mut sequences) = (range.partition, Sequences::default());
        let mut limits = LIMITS_MAX;
        self.reader.begin(partition, range.begin)?;
        loop {
            let (mut records, is_last) = self
                .reader
                .next_chunk(partition, range.topic_end, LIMITS_MAX.records_max)
                .await?;
            keep_clicks_since(self.scope.from, &mut records);
            let end = records.partition_point(|it| it.offset < range.next_offset);
            let (counted, later) = records.split_at(end);
            if let Some((tx, now)) = &mut counting {
                ensure_days(&mut self.days, self.pool, days_of(&records)).await?;
                let mut rest = counted;
                while !rest.is_empty() {
                    let start = CountStart {
                        sequences: &sequences,
                        now: *now,
                        counting: Counting::Again,
                    };
                    let added = batch::add_first_in_tx(tx, partition, rest, start, &mut limits);
                    let tally = added.await?;
                    limits = widened(limits);
                    rest = &rest[tally.records..];
                    sequences = tally.sequences;
                }
                ensure_new_in_tx(tx, partition, later, &sequences).await?;
            }
            let of_days = counted.iter().filter(|it| it.click.is_some());
            recounted.records_of_days += of_days.count() as u64;
            recounted.records += counted.len() as u64;
            self.progress.advance(counted.len() as u64);
            if is_last {
                return Ok(());
            }
        }
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

/// Ensures that the aggregation will count the clicks of later records. The aggregation skips a
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

/// Drops the clicks before the first day from their records, whose sequences still count.
fn keep_clicks_since(from: Date, records: &mut [PartitionRecord]) {
    for record in records {
        record.click.take_if(|click| day_of(click) < from);
    }
}

/// Ensures that no partition of the topic has fewer clicks than the statistics had.
fn ensure_not_fewer(
    from: Date,
    before: &BTreeMap<i16, i64>,
    after: &BTreeMap<i16, i64>,
) -> Result<(), RecountRefusal> {
    for (&partition, &before) in before {
        let after = after.get(&partition).copied().unwrap_or(0);
        if after < before {
            return Err(RecountRefusal::Fewer {
                partition,
                from,
                before,
                after,
            });
        }
    }
    Ok(())
}
