//! Repair: the projection writes the wrong rows again, from the events of the log.
//!
//! A repair has no code of its own that writes a row. Under the lock of the checkpoint, a chunk of wrong
//! rows is looked up again, the events of those rows are projected, and the rows are written in the
//! same transaction: no reader sees an intermediate state. Orphans are deleted by key. Projectors wait
//! for some tens of milliseconds for each chunk.

use anyhow::Context as _;
use linkledger_core::shard::{Position, Shard};
use sqlx::{AssertSqlSafe, PgConnection, PgPool};

use super::{
    comparison::{ComparedEvents, WrongRow, wrong_rows},
    findings::{FindingPlace, Findings},
    orphans::{self, KeyText},
    reprojection::project_in_tx,
    shard_pass::{RareEvents, next},
    snapshot::{GenerationTarget, LogBucket, ShardSnapshot, ensure_not_paused},
    statements,
};
use crate::{
    pipeline::retry::{self, Backoff},
    read_models::{
        description::{CacheEntry, ReadTable},
        redirects::RedirectChanges,
    },
};

/// Attempts at one chunk before the command gives up: another process may hold the checkpoint.
const ATTEMPTS_MAX: u32 = 6;

/// Most wrong rows of one transaction.
const CHUNK_ROWS: i64 = 500;

/// Most events that one transaction projects, except for a row that alone has more.
const CHUNK_EVENTS: i64 = 2_000;

/// Repairs all findings, and returns the number of rows written or deleted.
///
/// # Errors
/// Returns an error if the database does not answer. Rows repaired before the error stay right.
pub(super) async fn repair_findings(
    pool: &PgPool,
    target: GenerationTarget,
    findings: &Findings,
) -> anyhow::Result<u64> {
    let mut rows = 0;
    for place in &findings.places {
        let repaired = match place {
            FindingPlace::Shard {
                table,
                shard,
                bucket,
            } => repair_rows(pool, target, (table, *shard, *bucket)).await,
            FindingPlace::Page { table, after } => {
                with_retries(async || delete_orphans(pool, target, table, after.as_ref()).await)
                    .await
            }
            FindingPlace::Ledger => Ok(0),
        };
        rows += repaired.with_context(|| format!("cannot repair `{}`", target.projection))?;
    }
    Ok(rows)
}

async fn with_retries<T>(attempt: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let mut backoff = Backoff::default();
    for _ in 1..ATTEMPTS_MAX {
        match attempt().await {
            Err(error) if retry::passes_by_itself(&error) => {
                tokio::time::sleep(backoff.next_delay()).await;
            }
            result => return result,
        }
    }
    attempt().await
}

/// Repairs the wrong rows of a bucket, or of a shard for a table with rare events, chunk by chunk.
async fn repair_rows(
    pool: &PgPool,
    target: GenerationTarget,
    place: (&ReadTable, Shard, LogBucket),
) -> anyhow::Result<u64> {
    let first = with_retries(async || repair_chunk(pool, target, place).await).await?;
    let mut last = first;
    let mut rows = first.rows;
    // A row that is still wrong after its repair must not be repaired for ever.
    while last.rows < last.wrong_rows && rows < first.wrong_rows {
        last = with_retries(async || repair_chunk(pool, target, place).await).await?;
        rows += last.rows;
    }
    Ok(rows)
}

/// Result of the repair of one chunk.
#[derive(Debug, Clone, Copy)]
struct RepairedChunk {
    /// Number of rows written or deleted.
    rows: u64,
    /// Number of wrong rows before the repair.
    wrong_rows: u64,
}

async fn repair_chunk(
    pool: &PgPool,
    target: GenerationTarget,
    (table, shard, bucket): (&ReadTable, Shard, LogBucket),
) -> anyhow::Result<RepairedChunk> {
    let (mut snapshot, events) = if table.rare_events.is_empty() {
        let snapshot = ShardSnapshot::lock(pool, target, shard).await?;
        (snapshot, ComparedEvents::Bucket(bucket))
    } else {
        lock_at_rare_events(pool, target, shard).await?
    };
    let wrong = wrong_rows(&mut snapshot, table, &events, CHUNK_ROWS, CHUNK_EVENTS).await?;
    let mut positions: Vec<Position> = wrong
        .iter()
        .flat_map(|row| &row.positions)
        .copied()
        .collect();
    positions.sort_unstable();
    positions.dedup();
    let orphans: Vec<&KeyText> = wrong
        .iter()
        .filter(|row| row.positions.is_empty())
        .map(|row| &row.key)
        .collect();
    delete_in_tx(&mut snapshot.tx, target, table, &orphans).await?;
    let mut changes = project_in_tx(&mut snapshot, &positions).await?;
    for row in &wrong {
        add_change(&mut changes, table, row);
    }
    snapshot.commit(&changes).await?;
    Ok(RepairedChunk {
        rows: wrong.len() as u64,
        wrong_rows: wrong
            .first()
            .map_or(0, |row| row.wrong_count.unsigned_abs()),
    })
}

fn add_change(changes: &mut RedirectChanges, table: &ReadTable, row: &WrongRow) {
    match table.invalidates {
        CacheEntry::None => {}
        CacheEntry::Slug => row.key.iter().for_each(|slug| changes.add_slug(slug)),
        CacheEntry::Account => changes.add_account(row.account_id),
    }
}

/// Locks the checkpoint, and returns the rare events of the whole shard. Most of the log is read
/// before the lock; the rest is shorter than a bucket.
async fn lock_at_rare_events(
    pool: &PgPool,
    target: GenerationTarget,
    shard: Shard,
) -> anyhow::Result<(ShardSnapshot, ComparedEvents)> {
    let mut rare_events = RareEvents::default();
    let mut after = 0;
    loop {
        let mut snapshot = ShardSnapshot::begin(pool, target, shard).await?;
        let mut bucket = next(after, &snapshot);
        let is_last = bucket.last == snapshot.checkpoint;
        if is_last {
            snapshot.tx.commit().await?;
            snapshot = ShardSnapshot::lock(pool, target, shard).await?;
            bucket = next(after, &snapshot);
        }
        rare_events.read(&mut snapshot, bucket).await?;
        if is_last && bucket.last == snapshot.checkpoint {
            return Ok((snapshot, rare_events.compared()));
        }
        snapshot.tx.commit().await?;
        after = bucket.last;
    }
}

/// Deletes the orphans of a page, which has rows of all shards.
async fn delete_orphans(
    pool: &PgPool,
    target: GenerationTarget,
    table: &ReadTable,
    after: Option<&KeyText>,
) -> anyhow::Result<u64> {
    let mut tx = pool.begin().await.context("cannot begin a transaction")?;
    let is_live = lock_all_in_tx(&mut tx, target).await?;
    let page = orphans::read_page(&mut tx, target, table, after).await?;
    let keys: Vec<&KeyText> = page.orphans.iter().map(|orphan| &orphan.key).collect();
    delete_in_tx(&mut tx, target, table, &keys).await?;
    let mut changes = RedirectChanges::default();
    if is_live && table.invalidates == CacheEntry::Slug {
        keys.iter()
            .copied()
            .flatten()
            .for_each(|slug| changes.add_slug(slug));
    }
    changes.append_in_tx(&mut tx).await?;
    tx.commit().await?;
    Ok(keys.len() as u64)
}

async fn delete_in_tx(
    tx: &mut PgConnection,
    target: GenerationTarget,
    table: &ReadTable,
    keys: &[&KeyText],
) -> sqlx::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut statement =
        sqlx::query(AssertSqlSafe(statements::delete(table))).bind(target.generation);
    for index in 0..table.key.len() {
        let column: Vec<String> = keys.iter().map(|key| key[index].clone()).collect();
        statement = statement.bind(column);
    }
    statement.execute(tx).await?;
    Ok(())
}

/// Locks the checkpoints of all shards, and returns true if the generation is served. Refuses a paused
/// projection.
async fn lock_all_in_tx(tx: &mut PgConnection, target: GenerationTarget) -> anyhow::Result<bool> {
    let checkpoints = sqlx::query!(
        r#"
        SELECT role = 'live' AS "is_live!", paused_at IS NOT NULL AS "is_paused!"
        FROM read_model.checkpoints
        WHERE projection = $1 AND generation = $2
        ORDER BY shard
        FOR UPDATE
        "#,
        target.projection.name(),
        target.generation
    )
    .fetch_all(tx)
    .await
    .context("cannot lock the checkpoints")?;
    let is_paused = checkpoints.iter().any(|row| row.is_live && row.is_paused);
    ensure_not_paused(target, is_paused)?;
    Ok(checkpoints.iter().any(|row| row.is_live))
}
