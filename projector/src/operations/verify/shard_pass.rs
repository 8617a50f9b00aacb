//! One pass over the log of a shard, bucket by bucket, up to the checkpoint.
//!
//! A row is compared in the bucket of the last event that determines the row. If a later event is
//! applied before the bucket is compared, the row is compared in a later bucket. The pass ends in a
//! snapshot without a further bucket: a pass is faster than new events.
//!
//! Waiting events of parked accounts are passed over. If one of them is applied before the pass ends,
//! the pass starts again.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use linkledger_core::shard::{Position, Shard};
use sqlx::PgPool;
use uuid::Uuid;

use super::{
    comparison::{ComparedEvents, compare},
    findings::{Finding, FindingPlace, Findings},
    snapshot::{GenerationTarget, LogBucket, ShardSnapshot},
};
use crate::read_models::description::{ReadModel as _, ReadTable};

/// Events of a bucket: the database needs some tens of milliseconds.
pub(super) const BUCKET_EVENTS: i64 = 5_000;

/// Most passes over a shard whose accounts are released meanwhile.
const PASSES_MAX: u32 = 5;

/// Result of one part of a verification: a shard, or a table.
#[derive(Debug, Default)]
pub(super) struct PartReport {
    pub(super) events: u64,
    pub(super) rows_expected: u64,
    pub(super) rows_found: u64,
    pub(super) findings: Findings,
}

impl PartReport {
    async fn compare(
        &mut self,
        snapshot: &mut ShardSnapshot,
        table: &'static ReadTable,
        bucket: LogBucket,
        events: ComparedEvents,
    ) -> anyhow::Result<()> {
        let compared = compare(snapshot, table, &events).await?;
        self.rows_expected += compared.expected;
        // The rows of other tables are counted page by page.
        if table.explanation.is_none() {
            self.rows_found += compared.found;
        }
        let shard = snapshot.shard;
        let named = compared.rows.iter();
        let named = named.map(|row| Finding::of(row, table, Some(shard), Some(bucket)));
        let place = FindingPlace::Shard {
            table,
            shard,
            bucket,
        };
        self.findings.add(place, compared.mismatches, named);
        Ok(())
    }
}

/// Positions of the rare events of a projection's tables. They stay in memory: 8 bytes for each time
/// that an operator has suspended or resumed an account.
#[derive(Debug, Default)]
pub(super) struct RareEvents(Vec<Position>);

impl RareEvents {
    /// Adds the rare events of a bucket, waiting ones included: an account may be released before the
    /// end of the pass.
    pub(super) async fn read(
        &mut self,
        snapshot: &mut ShardSnapshot,
        bucket: LogBucket,
    ) -> anyhow::Result<()> {
        let tables = snapshot.target.projection.tables().iter();
        let types: Vec<&str> = tables
            .flat_map(|table| table.rare_events)
            .copied()
            .collect();
        if types.is_empty() {
            return Ok(());
        }
        let positions = sqlx::query_scalar!(
            "
            SELECT position FROM event_store.events
            WHERE shard = $1 AND position BETWEEN $2 AND $3 AND type = ANY($4)
            ORDER BY position
            ",
            snapshot.shard.number(),
            bucket.first,
            bucket.last,
            &types as &[&str]
        )
        .fetch_all(&mut *snapshot.tx)
        .await
        .context("cannot read the status events of accounts")?;
        self.0.extend(positions);
        Ok(())
    }

    /// Returns the collected events of the whole shard.
    pub(super) fn compared(&self) -> ComparedEvents {
        ComparedEvents::Rare(self.0.clone())
    }
}

/// Returns the bucket after a position; an empty bucket at the checkpoint.
pub(super) fn next(after: Position, snapshot: &ShardSnapshot) -> LogBucket {
    LogBucket {
        first: after + 1,
        last: snapshot.checkpoint.min(after + BUCKET_EVENTS),
    }
}

/// First event of each parked account that a pass has gone over.
#[derive(Debug, Default)]
struct PassedOver(BTreeMap<Uuid, Position>);

impl PassedOver {
    async fn read(
        &mut self,
        snapshot: &mut ShardSnapshot,
        bucket: LogBucket,
    ) -> anyhow::Result<()> {
        let waiting = sqlx::query!(
            r#"
            SELECT account_id, min(position) AS "position!" FROM read_model.parked_events
            WHERE projection = $1 AND generation = $2 AND shard = $3
              AND position BETWEEN $4 AND $5
            GROUP BY account_id
            "#,
            snapshot.target.projection.name(),
            snapshot.target.generation,
            snapshot.shard.number(),
            bucket.first,
            bucket.last
        )
        .fetch_all(&mut *snapshot.tx)
        .await
        .context("cannot read waiting events of parked accounts")?;
        for row in waiting {
            self.0.entry(row.account_id).or_insert(row.position);
        }
        Ok(())
    }

    /// Returns true if all of these events are still waiting. Waiting events of an account are applied
    /// in order.
    async fn waits_in(&self, snapshot: &mut ShardSnapshot) -> anyhow::Result<bool> {
        if self.0.is_empty() {
            return Ok(true);
        }
        let positions: Vec<Position> = self.0.values().copied().collect();
        let waiting = sqlx::query_scalar!(
            r#"
            SELECT count(*) AS "count!" FROM unnest($4::bigint[]) AS passed (position)
            JOIN read_model.parked_events AS w
              ON w.projection = $1 AND w.generation = $2 AND w.shard = $3
             AND w.position = passed.position
            "#,
            snapshot.target.projection.name(),
            snapshot.target.generation,
            snapshot.shard.number(),
            &positions
        )
        .fetch_one(&mut *snapshot.tx)
        .await
        .context("cannot read waiting events of parked accounts")?;
        Ok(usize::try_from(waiting) == Ok(positions.len()))
    }
}

/// Compares the rows of a shard with the log.
pub(super) async fn verify_shard(
    pool: &PgPool,
    target: GenerationTarget,
    shard: Shard,
    on_progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<PartReport> {
    for _ in 0..PASSES_MAX {
        if let Some(report) = try_pass(pool, target, shard, on_progress).await? {
            return Ok(report);
        }
    }
    bail!(
        "accounts were released during each of {PASSES_MAX} passes over the shard; verify again later"
    )
}

/// Returns `None` if an account was released during the pass.
async fn try_pass(
    pool: &PgPool,
    target: GenerationTarget,
    shard: Shard,
    on_progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<Option<PartReport>> {
    let mut report = PartReport::default();
    let mut rare_events = RareEvents::default();
    let mut passed_over = PassedOver::default();
    let mut after = 0;
    loop {
        let mut snapshot = ShardSnapshot::begin(pool, target, shard).await?;
        let bucket = next(after, &snapshot);
        let events = snapshot.count_events(bucket).await?;
        let is_last = bucket.last == snapshot.checkpoint;
        rare_events.read(&mut snapshot, bucket).await?;
        for table in target.projection.tables() {
            let events = if table.rare_events.is_empty() {
                ComparedEvents::Bucket(bucket)
            } else if is_last {
                rare_events.compared()
            } else {
                continue;
            };
            report.compare(&mut snapshot, table, bucket, events).await?;
        }
        passed_over.read(&mut snapshot, bucket).await?;
        let is_whole = is_last && passed_over.waits_in(&mut snapshot).await?;
        snapshot.tx.commit().await?;
        report.events += events;
        on_progress(events);
        after = bucket.last;
        if is_last {
            return Ok(is_whole.then_some(report));
        }
    }
}
