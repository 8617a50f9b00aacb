//! Repair: the projection writes the wrong rows again, from the events of the log.
//!
//! A repair has no code of its own that writes a row. Under the lock of the checkpoint, a chunk of wrong
//! rows is looked up again, the events of those rows are projected, and the rows are written in the
//! same transaction: no reader sees an intermediate state. Orphans are deleted by key. Projectors wait
//! for some tens of milliseconds for each chunk.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail, ensure};
use linkledger_core::shard::Position;
use linkledger_event_store::log;
use linkledger_service::{databases::Databases, log_identity};
use sqlx::{AssertSqlSafe, PgConnection, PgPool};
use uuid::Uuid;

use super::{
    comparison::{ComparedEvents, Comparison},
    exceptions::Exceptions,
    findings::{EventsPlace, FindingPlace, Findings},
    orphans::{self, KeyText, PagePlace},
    served,
    snapshot::{GenerationTarget, ShardSnapshot, begin_locking, ensure_not_paused},
    statements,
};
use crate::{
    operations::rebuild::is_paused,
    pipeline::{checkpoint::generation::lock_in_tx, decode::BatchEvent, retry::retried},
    read_models::{
        Creation, DecodedEvent, Rows,
        description::{CacheEntry, ReadTable},
        redirects::RedirectChanges,
    },
};

/// Most wrong rows of one transaction.
const CHUNK_ROWS: usize = 500;

/// Repairs all findings, and returns the number of rows written or deleted.
///
/// # Errors
/// Returns an error if the database fails. Rows repaired before the error stay right.
pub(super) async fn repair_findings(
    databases: &Databases,
    target: GenerationTarget,
    findings: &Findings,
) -> anyhow::Result<u64> {
    let mut rows = 0;
    for place in &findings.places {
        let repaired = match place {
            FindingPlace::Rows { table, events } => {
                repair_rows(databases, target, table, *events).await
            }
            FindingPlace::Page { table, place } => {
                retried(|| delete_orphans(databases, target, table, place)).await
            }
        };
        rows += repaired.with_context(|| format!("cannot repair `{}`", target.projection))?;
    }
    Ok(rows)
}

/// Repairs the wrong rows of a place, chunk by chunk.
async fn repair_rows(
    databases: &Databases,
    target: GenerationTarget,
    table: &'static ReadTable,
    place: EventsPlace,
) -> anyhow::Result<u64> {
    let (mut rows, mut wrong_at_first) = (0, None);
    loop {
        let chunk = retried(|| repair_chunk(databases, target, table, place)).await?;
        rows += chunk.rows;
        // The last chunk covers all rows that are still wrong. There are at most as many repairs as
        // there were wrong rows at first: a row that stays wrong must not be repaired for ever.
        if chunk.rows == chunk.wrong_rows || rows >= *wrong_at_first.get_or_insert(chunk.wrong_rows)
        {
            return Ok(rows);
        }
    }
}

/// Result of the repair of one chunk.
struct RepairedChunk {
    /// Number of rows written or deleted.
    rows: u64,
    /// Number of wrong rows in the bucket or shard before the repair of the chunk.
    wrong_rows: u64,
}

async fn repair_chunk(
    databases: &Databases,
    target: GenerationTarget,
    table: &'static ReadTable,
    place: EventsPlace,
) -> anyhow::Result<RepairedChunk> {
    let (mut snapshot, exceptions, events) = lock(databases, target, place).await?;
    let comparison = Comparison::make(&mut snapshot, table, &exceptions, &events).await?;
    let wrong_rows = comparison.wrong_count();
    let wrong = comparison
        .events_of_wrong_rows(CHUNK_ROWS)
        .await
        .with_context(|| format!("cannot find the events of rows of `{}`", table.name))?;
    let orphans = wrong.iter().filter(|row| row.positions.is_empty());
    let orphans: Vec<&KeyText> = orphans.map(|row| &row.key).collect();
    delete_in_tx(&mut snapshot.tx, target, table, &orphans).await?;
    let mut changes = RedirectChanges::default();
    for row in &wrong {
        add_change(&mut changes, table, row.account_id, &row.key);
    }
    let positions = wrong.iter().flat_map(|row| &row.positions).copied();
    project_and_commit(snapshot, positions, &changes).await?;
    Ok(RepairedChunk {
        rows: wrong.len() as u64,
        wrong_rows,
    })
}

/// Projects the events at these positions, in order, under the lock of the shard's checkpoint, appends
/// the changes for redirect caches, and commits.
///
/// For each row that the events change, the events must include the last applied one: otherwise the
/// row goes back to an earlier state.
///
/// # Errors
/// Returns an error if the log lacks an event or an event cannot be read, or if the database
/// fails or refuses a row.
async fn project_and_commit(
    mut snapshot: ShardSnapshot,
    positions: impl IntoIterator<Item = Position>,
    changes: &RedirectChanges,
) -> anyhow::Result<()> {
    let positions: BTreeSet<Position> = positions.into_iter().collect();
    let positions: Vec<Position> = positions.into_iter().collect();
    let target = snapshot.target;
    let events = read_events(&snapshot, &positions).await?;
    let projected: Vec<_> = events
        .iter()
        .map(|event| (target.projection, target.generation, event))
        .collect();
    let rows = Rows::of(&projected);
    rows.write_in_tx(&mut snapshot.tx, Creation::Put).await?;
    Ok(snapshot.commit(changes).await?)
}

async fn read_events(
    snapshot: &ShardSnapshot,
    positions: &[Position],
) -> anyhow::Result<Vec<DecodedEvent>> {
    let shard = snapshot.shard;
    let found = log::read_at(&snapshot.log, shard, positions)
        .await
        .context("cannot read the event store")?;
    ensure!(
        found.len() == positions.len(),
        "the event store lacks events of shard {shard}"
    );
    let mut events = Vec::with_capacity(found.len());
    for recorded in found {
        match BatchEvent::decode(recorded) {
            BatchEvent::Decoded(event) => events.push(event),
            BatchEvent::Poison(recorded, poison) => bail!(
                "this release cannot read the event at position {} of shard {shard}: {}",
                recorded.position,
                poison.detail
            ),
        }
    }
    Ok(events)
}

/// Locks the checkpoint of the place, and returns the events to compare.
async fn lock(
    databases: &Databases,
    target: GenerationTarget,
    place: EventsPlace,
) -> anyhow::Result<(ShardSnapshot, Exceptions, ComparedEvents)> {
    Ok(match place {
        EventsPlace::Bucket(shard, bucket) => {
            let mut snapshot = ShardSnapshot::lock(databases, target, shard).await?;
            let exceptions = Exceptions::of_shard(&mut snapshot.tx, target, shard).await?;
            (snapshot, exceptions, ComparedEvents::Bucket(bucket))
        }
        EventsPlace::Subject(part) => {
            let mut snapshot = ShardSnapshot::lock(databases, target, part.shard()).await?;
            let (exceptions, events) = part.read(&mut snapshot).await?;
            (snapshot, exceptions, events.compared)
        }
    })
}

fn add_change(changes: &mut RedirectChanges, table: &ReadTable, account_id: Uuid, key: &KeyText) {
    match table.invalidates {
        CacheEntry::None => {}
        CacheEntry::Slug => key.iter().for_each(|slug| changes.add_slug(slug)),
        CacheEntry::Account => changes.add_account(account_id),
    }
}

/// Deletes the orphans of a page, which has rows of all shards.
async fn delete_orphans(
    databases: &Databases,
    target: GenerationTarget,
    table: &ReadTable,
    place: &PagePlace,
) -> anyhow::Result<u64> {
    log_identity::check(databases).await?;
    let mut tx = begin_locking(&databases.read).await?;
    let is_live = lock_all_in_tx(&mut tx, &databases.read, target).await?;
    let page = orphans::read_page(&databases.log, &mut tx, target, table, place).await?;
    let keys: Vec<&KeyText> = page.orphans.iter().map(|orphan| &orphan.key).collect();
    delete_in_tx(&mut tx, target, table, &keys).await?;
    let mut changes = RedirectChanges::default();
    if is_live {
        for orphan in &page.orphans {
            add_change(&mut changes, table, orphan.account_id, &orphan.key);
        }
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
async fn lock_all_in_tx(
    tx: &mut PgConnection,
    pool: &PgPool,
    GenerationTarget {
        projection,
        generation,
    }: GenerationTarget,
) -> anyhow::Result<bool> {
    lock_in_tx(tx, projection, generation)
        .await
        .context("cannot lock the checkpoints")?;
    // Neither a pause nor a swap changes the locked checkpoints.
    let is_live = served(pool, projection).await?.generation == generation;
    if is_live {
        ensure_not_paused(projection, is_paused(pool, projection).await?)?;
    }
    Ok(is_live)
}
