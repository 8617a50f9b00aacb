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
use linkledger_service::databases::Databases;
use uuid::Uuid;

use super::{
    VerificationReport,
    comparison::{ComparedEvents, Comparison},
    exceptions::Exceptions,
    findings::{EventsPlace, FindingPlace},
    snapshot::{GenerationTarget, LogBucket, ShardSnapshot},
    step_size::StepSize,
};
use crate::{pipeline::retry::Retries, read_models::tables};

/// Most passes over a shard whose accounts are released meanwhile.
const PASSES_MAX: u32 = 5;

/// Returns the bucket after a position; an empty bucket at the checkpoint.
pub(super) fn next(after: Position, snapshot: &ShardSnapshot, size: StepSize) -> LogBucket {
    LogBucket {
        first: after + 1,
        last: snapshot.checkpoint.min(after + size.get()),
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
    databases: &Databases,
    target: GenerationTarget,
    shard: Shard,
    on_progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<VerificationReport> {
    for _ in 0..PASSES_MAX {
        let mut pass = ShardPass {
            target,
            shard,
            report: VerificationReport::of(target),
            passed_over: PassedOver::default(),
            compared_up_to: 0,
            size: StepSize::default(),
            is_at_end: false,
            is_outdated: false,
        };
        let mut retries = Retries::default();
        while !pass.is_at_end {
            match pass.compare_bucket(databases).await {
                Ok(events) => {
                    on_progress(events);
                    retries.reset();
                    pass.size.after_success();
                }
                Err(error) => pass.size.after(error, &mut retries).await?,
            }
        }
        if !pass.is_outdated {
            return Ok(pass.report);
        }
    }
    bail!(
        "accounts were released during each of {PASSES_MAX} passes over the shard; verify again later"
    )
}

struct ShardPass {
    target: GenerationTarget,
    shard: Shard,
    report: VerificationReport,
    passed_over: PassedOver,
    /// Position of the last compared event.
    compared_up_to: Position,
    /// Number of events of the next bucket.
    size: StepSize,
    /// True if all buckets up to the checkpoint are compared.
    is_at_end: bool,
    /// True if an account was released during the pass.
    is_outdated: bool,
}

impl ShardPass {
    /// Compares the next bucket, and returns the number of its events. After an error the bucket can
    /// be compared again: only a whole bucket is added to the report.
    async fn compare_bucket(&mut self, databases: &Databases) -> anyhow::Result<u64> {
        let mut snapshot = ShardSnapshot::begin(databases, self.target, self.shard).await?;
        let bucket = next(self.compared_up_to, &snapshot, self.size);
        let is_last = bucket.last == snapshot.checkpoint;
        let events = snapshot.count_events(bucket).await?;
        let mut report = VerificationReport::of(self.target);
        report.events = events;
        let exceptions = Exceptions::of_shard(&mut snapshot.tx, self.target, self.shard).await?;
        for table in tables(self.target.projection) {
            let compared = ComparedEvents::Bucket(bucket);
            let comparison = Comparison::make(&mut snapshot, table, &exceptions, &compared).await?;
            let events = EventsPlace::Bucket(self.shard, bucket);
            let place = FindingPlace::Rows { table, events };
            comparison.report(place, &mut report).await?;
        }
        self.passed_over.read(&mut snapshot, bucket).await?;
        let is_outdated = is_last && !self.passed_over.waits_in(&mut snapshot).await?;
        snapshot.tx.commit().await?;
        self.report.append(report);
        self.compared_up_to = bucket.last;
        (self.is_at_end, self.is_outdated) = (is_last, is_outdated);
        Ok(events)
    }
}
