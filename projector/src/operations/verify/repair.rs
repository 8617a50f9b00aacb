//! Repair: what a verification has found is written as the log wants it, and nothing else.
//!
//! Bucket by bucket, each in a transaction under its checkpoint's lock: the rows are compared once
//! more, at the checkpoint of that moment, and those that are wrong are written in their final
//! state. Projectors wait for some tens of milliseconds, and go on.

use anyhow::Context as _;
use linkledger_core::shard::Shard;
use sqlx::{PgConnection, PgPool};

use super::{
    bucket, credit_rows,
    findings::{Findings, Place},
    link_rows,
    stopped_accounts::StatusEvents,
    superfluous,
};
use crate::{
    pipeline::retry::{self, Backoff},
    read_models::{
        pages::Key,
        redirects::RedirectChanges,
        snapshot::{Bucket, Snapshot},
        tables::{Table, Target},
    },
};

/// Attempts at one bucket before the command gives up: somebody may hold its checkpoint.
const ATTEMPTS_MAX: u32 = 6;

/// Writes what is wrong; how many rows there were.
///
/// # Errors
/// When the database does not answer. What is written until then is right.
pub(super) async fn repair(
    pool: &PgPool,
    target: Target,
    findings: &Findings,
) -> anyhow::Result<u64> {
    let mut rows = 0;
    for place in &findings.places {
        rows += repair_with_patience(pool, target, place)
            .await
            .with_context(|| format!("can't repair `{}`", target.projection))?;
    }
    Ok(rows)
}

async fn repair_with_patience(pool: &PgPool, target: Target, place: &Place) -> anyhow::Result<u64> {
    let mut backoff = Backoff::default();
    for _ in 1..ATTEMPTS_MAX {
        match repair_place(pool, target, place).await {
            Err(error) if retry::passes_by_itself(&error) => {
                tokio::time::sleep(backoff.next_delay()).await;
            }
            result => return result,
        }
    }
    repair_place(pool, target, place).await
}

async fn repair_place(pool: &PgPool, target: Target, place: &Place) -> anyhow::Result<u64> {
    match place {
        Place::Bucket {
            table: Table::StoppedAccounts,
            shard,
            ..
        } => repair_stopped_accounts(pool, target, *shard).await,
        Place::Bucket {
            table,
            shard,
            bucket,
        } => {
            let snapshot = Snapshot::lock(pool, target, *shard).await?;
            repair_bucket(snapshot, *table, *bucket).await
        }
        Place::Page { table, after } => repair_page(pool, target, *table, after.as_ref()).await,
        Place::Ledger => Ok(0),
    }
}

async fn repair_bucket(
    mut snapshot: Snapshot,
    table: Table,
    bucket: Bucket,
) -> anyhow::Result<u64> {
    let mut changes = RedirectChanges::default();
    let rows = match table {
        Table::Links => link_rows::repair_links(&mut snapshot, bucket).await?,
        Table::CreditBalances => credit_rows::repair_balances(&mut snapshot, bucket).await?,
        Table::CreditEntries => credit_rows::repair_entries(&mut snapshot, bucket).await?,
        Table::Redirects => {
            let slugs = link_rows::repair_redirects(&mut snapshot, bucket).await?;
            for slug in &slugs {
                changes.add_slug(slug);
            }
            slugs.len() as u64
        }
        Table::StoppedAccounts => 0,
    };
    commit(snapshot, &changes).await?;
    Ok(rows)
}

async fn repair_stopped_accounts(
    pool: &PgPool,
    target: Target,
    shard: Shard,
) -> anyhow::Result<u64> {
    let mut status_events = StatusEvents::default();
    let mut after = 0;
    loop {
        // Most of the log is read without the lock; what has come since is less than a bucket.
        let mut snapshot = Snapshot::begin(pool, target, shard).await?;
        let bucket = bucket::next(after, &snapshot);
        let is_last = bucket.last == snapshot.checkpoint;
        if is_last {
            snapshot.tx.commit().await?;
            snapshot = Snapshot::lock(pool, target, shard).await?;
            let bucket = bucket::next(after, &snapshot);
            if bucket.last < snapshot.checkpoint {
                continue;
            }
            status_events.read(&mut snapshot, bucket).await?;
            let mut changes = RedirectChanges::default();
            let accounts = status_events.repair(&mut snapshot).await?;
            for account_id in &accounts {
                changes.add_account(*account_id);
            }
            commit(snapshot, &changes).await?;
            return Ok(accounts.len() as u64);
        }
        status_events.read(&mut snapshot, bucket).await?;
        snapshot.tx.commit().await?;
        after = bucket.last;
    }
}

/// A page has rows of all shards.
async fn repair_page(
    pool: &PgPool,
    target: Target,
    table: Table,
    after: Option<&Key>,
) -> anyhow::Result<u64> {
    let mut tx = pool.begin().await.context("can't begin a transaction")?;
    let is_live = lock_all_in_tx(&mut tx, target).await?;
    let page = superfluous::page(&mut tx, target, table, after).await?;
    let keys: Vec<Key> = page.superfluous.into_iter().map(|(_, key)| key).collect();
    let rows = superfluous::remove(&mut tx, target, table, &keys).await?;
    if is_live && table == Table::Redirects {
        let mut changes = RedirectChanges::default();
        for key in &keys {
            changes.add_slug(&key.slug_folded);
        }
        changes.append_in_tx(&mut tx).await?;
    }
    tx.commit().await?;
    Ok(rows)
}

/// Whether what is locked is served.
async fn lock_all_in_tx(tx: &mut PgConnection, target: Target) -> sqlx::Result<bool> {
    let roles = sqlx::query_scalar!(
        "
        SELECT role FROM read_model.checkpoints
        WHERE projection = $1 AND generation = $2
        ORDER BY shard
        FOR UPDATE
        ",
        target.projection.name(),
        target.generation
    )
    .fetch_all(tx)
    .await?;
    Ok(roles.iter().any(|role| role == "live"))
}

/// Caches hear of it in the same transaction.
async fn commit(mut snapshot: Snapshot, changes: &RedirectChanges) -> anyhow::Result<()> {
    if snapshot.is_live {
        changes.append_in_tx(&mut snapshot.tx).await?;
    }
    snapshot.tx.commit().await?;
    Ok(())
}
