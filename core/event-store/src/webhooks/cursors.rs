//! Places of webhooks in the log. A cursor only moves forward; [`store_progress`](super::deliveries::store_progress)
//! moves it.

use sqlx::{PgConnection, PgPool};

use crate::{
    log::{
        self,
        feed::{self, FeedPlace},
    },
    unreadable,
};
use linkledger_core::{
    id::{AccountId, WebhookId},
    shard::{Position, Shard},
};

/// A place in the events of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardPlace {
    /// Shard of the events.
    pub shard: Shard,
    /// The place; its version is 0 for a reader of all accounts.
    pub place: FeedPlace,
}

/// Cursor of a webhook in one shard: all events before its place are delivered, kept as deliveries, or not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// Shard of the events.
    pub shard: Shard,
    /// True for a replay of past events, which runs beside the live cursor.
    pub is_replay: bool,
    /// Place before the first event that is still to be sent.
    pub place: FeedPlace,
    /// Last position of a replay; `None` for a live cursor.
    pub until: Option<Position>,
}

/// Reads the cursors of a webhook, by shard, in each the live one first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn cursors(pool: &PgPool, webhook_id: WebhookId) -> sqlx::Result<Vec<Cursor>> {
    let rows = sqlx::query!(
        "
        SELECT shard, is_replay, position, version, until_position
        FROM event_store.webhook_cursors
        WHERE webhook_id = $1
        ORDER BY shard, is_replay
        ",
        webhook_id.uuid()
    )
    .fetch_all(pool)
    .await?;
    let cursors = rows.into_iter().map(|row| {
        let shard = Shard::new(row.shard.into());
        let (position, version) = (row.position, row.version);
        Ok(Cursor {
            shard: shard.ok_or_else(|| unreadable(format!("no shard {}", row.shard)))?,
            is_replay: row.is_replay,
            place: FeedPlace { position, version },
            until: row.until_position,
        })
    });
    cursors.collect()
}

/// Returns the places after all events that a new webhook does not get: of the account's shard, or of all shards for a
/// webhook that receives the events of all accounts. The caller must have locked the account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn end_of_log_in_tx(
    tx: &mut PgConnection,
    account_id: AccountId,
    all_accounts: bool,
) -> sqlx::Result<Vec<ShardPlace>> {
    if !all_accounts {
        let place = feed::end_place(&mut *tx, account_id).await?;
        let shard = Shard::of(account_id);
        return Ok(vec![ShardPlace { shard, place }]);
    }
    let heads = log::heads(tx).await?;
    let places = Shard::all().map(|shard| {
        let place = FeedPlace {
            position: heads[shard.index()],
            version: 0,
        };
        ShardPlace { shard, place }
    });
    Ok(places.collect())
}

/// Inserts the live cursors of a new webhook, and the health of its receiver.
pub(super) async fn insert_in_tx(
    tx: &mut PgConnection,
    webhook_id: WebhookId,
    start: &[ShardPlace],
) -> sqlx::Result<()> {
    let (shards, positions, versions) = columns(start);
    sqlx::query!(
        "
        WITH health AS (
            INSERT INTO event_store.webhook_health (webhook_id) VALUES ($1)
        )
        INSERT INTO event_store.webhook_cursors (webhook_id, shard, is_replay, position, version)
        SELECT $1, shard, false, position, version
        FROM unnest($2::smallint[], $3::bigint[], $4::bigint[]) AS start (shard, position, version)
        ",
        webhook_id.uuid(),
        &shards,
        &positions,
        &versions
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Starts a replay of the events after each place, up to a position of its shard. Returns false if a replay of the
/// webhook is running. The caller must have locked the account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn start_replay_in_tx(
    tx: &mut PgConnection,
    webhook_id: WebhookId,
    places: &[(ShardPlace, Position)],
) -> sqlx::Result<bool> {
    let (starts, ends): (Vec<ShardPlace>, Vec<Position>) = places.iter().copied().unzip();
    let (shards, positions, versions) = columns(&starts);
    let started = sqlx::query!(
        "
        INSERT INTO event_store.webhook_cursors
            (webhook_id, shard, is_replay, position, version, until_position)
        SELECT $1, shard, true, position, version, until_position
        FROM unnest($2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[])
            AS start (shard, position, version, until_position)
        WHERE NOT EXISTS (
            SELECT FROM event_store.webhook_cursors WHERE webhook_id = $1 AND is_replay
        )
        ",
        webhook_id.uuid(),
        &shards,
        &positions,
        &versions,
        &ends
    )
    .execute(tx)
    .await?;
    Ok(started.rows_affected() > 0)
}

/// Returns shards, positions and versions as columns, for `unnest`.
fn columns(places: &[ShardPlace]) -> (Vec<i16>, Vec<Position>, Vec<i64>) {
    (
        places.iter().map(|at| at.shard.number()).collect(),
        places.iter().map(|at| at.place.position).collect(),
        places.iter().map(|at| at.place.version).collect(),
    )
}
