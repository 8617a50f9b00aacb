//! One pass over a shard's log, bucket by bucket, up to the checkpoint.
//!
//! A row is compared in the bucket of the last event that says what it must be. If another one
//! comes before its bucket is over, it is compared in a later one: the pass ends in a snapshot in
//! which nothing is left, which it comes to because it is faster than events are.
//!
//! Events that wait are passed over. If one of them is applied before the pass ends, it begins anew.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use linkledger_core::shard::{Position, Shard};
use sqlx::PgPool;
use uuid::Uuid;

use super::{
    credit_rows,
    findings::{Finding, Findings, Place},
    link_rows,
    stopped_accounts::StatusEvents,
};
use crate::read_models::{
    Projection,
    comparison::Comparison,
    snapshot::{Bucket, Snapshot},
    tables::{Table, Target},
};

/// Events of a bucket: some tens of milliseconds of the database, and of a snapshot.
const BUCKET_EVENTS: i64 = 5_000;

/// Most passes over a shard in which accounts are released meanwhile.
const PASSES_MAX: u32 = 5;

/// What a part of a verification has come to.
#[derive(Debug, Default)]
pub(super) struct Pass {
    pub(super) events: u64,
    pub(super) rows_wanted: u64,
    pub(super) rows_found: u64,
    pub(super) findings: Findings,
}

impl Pass {
    /// Compares the rows of links, redirects or ledgers that are compared in this bucket.
    async fn compare(&mut self, snapshot: &mut Snapshot, bucket: Bucket) -> anyhow::Result<()> {
        let shard = snapshot.shard;
        match snapshot.target.projection {
            Projection::Credits => {
                let entries = credit_rows::compare_entries(snapshot, bucket).await?;
                self.add(Table::CreditEntries, shard, bucket, entries);
                let balances = credit_rows::compare_balances(snapshot, bucket).await?;
                self.add(Table::CreditBalances, shard, bucket, balances);
            }
            Projection::Links => {
                let links = link_rows::compare_links(snapshot, bucket).await?;
                self.add(Table::Links, shard, bucket, links);
            }
            Projection::Redirects => {
                let redirects = link_rows::compare_redirects(snapshot, bucket).await?;
                self.add(Table::Redirects, shard, bucket, redirects);
            }
        }
        Ok(())
    }

    fn add(&mut self, table: Table, shard: Shard, bucket: Bucket, compared: Comparison) {
        self.rows_wanted += compared.wanted;
        // Those of other tables are counted page by page.
        if table == Table::StoppedAccounts {
            self.rows_found += compared.found;
        }
        let named = compared.rows.into_iter();
        let named = named.map(|row| Finding::of(&row, table, Some(shard), Some(bucket)));
        let place = Place::Bucket {
            table,
            shard,
            bucket,
        };
        self.findings.add(place, compared.mismatches, named);
    }
}

/// The bucket after that position; empty at the checkpoint.
pub(super) fn next(after: Position, snapshot: &Snapshot) -> Bucket {
    Bucket {
        first: after + 1,
        last: snapshot.checkpoint.min(after + BUCKET_EVENTS),
    }
}

/// Of each account the first event that a pass has gone over because it waits.
#[derive(Debug, Default)]
struct PassedOver(BTreeMap<Uuid, Position>);

impl PassedOver {
    async fn read(&mut self, snapshot: &mut Snapshot, bucket: Bucket) -> anyhow::Result<()> {
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
        .context("can't read what waits")?;
        for row in waiting {
            self.0.entry(row.account_id).or_insert(row.position);
        }
        Ok(())
    }

    /// Whether all of it waits still: what waits of an account is applied in order.
    async fn waits_in(&self, snapshot: &mut Snapshot) -> anyhow::Result<bool> {
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
        .context("can't read what waits still")?;
        Ok(usize::try_from(waiting) == Ok(positions.len()))
    }
}

/// Compares what a shard's log wants with what there is.
pub(super) async fn shard(
    pool: &PgPool,
    target: Target,
    shard: Shard,
    on_progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<Pass> {
    for _ in 0..PASSES_MAX {
        if let Some(pass) = try_pass(pool, target, shard, on_progress).await? {
            return Ok(pass);
        }
    }
    bail!("accounts were released again and again while it was compared; verify it again later")
}

/// `None` if rows have changed behind its back.
async fn try_pass(
    pool: &PgPool,
    target: Target,
    shard: Shard,
    on_progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<Option<Pass>> {
    let mut pass = Pass::default();
    let mut status_events = StatusEvents::default();
    let mut passed_over = PassedOver::default();
    let mut after = 0;
    loop {
        let mut snapshot = Snapshot::begin(pool, target, shard).await?;
        let bucket = next(after, &snapshot);
        let events = snapshot.count_events(bucket).await?;
        let is_last = bucket.last == snapshot.checkpoint;
        pass.compare(&mut snapshot, bucket).await?;
        if target.projection == Projection::Redirects {
            status_events.read(&mut snapshot, bucket).await?;
            if is_last {
                let stopped = status_events.compare(&mut snapshot).await?;
                pass.add(Table::StoppedAccounts, shard, bucket, stopped);
            }
        }
        passed_over.read(&mut snapshot, bucket).await?;
        let is_whole = is_last && passed_over.waits_in(&mut snapshot).await?;
        snapshot.tx.commit().await?;
        pass.events += events;
        on_progress(events);
        after = bucket.last;
        if is_last {
            return Ok(is_whole.then_some(pass));
        }
    }
}
