//! First and last events of links.

use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

use super::{EventRow, query_events};
use linkledger_core::{
    envelope::RecordedEvent,
    id::{AccountId, LinkId},
    shard::{Position, Shard},
};

/// Final state of a link, as far as the type of its last event determines the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEndState {
    /// Deleted forever.
    Deleted,
    /// Disabled until the link is enabled.
    Disabled,
    /// Undetermined: the link may be enabled, or disabled and changed since.
    Undetermined,
}

impl LinkEndState {
    pub(crate) fn of_last_event(event_type: &str) -> Self {
        match event_type {
            "LinkDeleted" => Self::Deleted,
            "LinkDisabled" => Self::Disabled,
            _ => Self::Undetermined,
        }
    }
}

/// First position and final state of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkExtent {
    /// Position of the event that created the link.
    pub created_at: Position,
    /// Final state of the link.
    pub end_state: LinkEndState,
}

/// Finds the first position and the final state of a link; `None` if the account has no such link.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn link_extent(
    pool: &PgPool,
    account_id: AccountId,
    link_id: LinkId,
) -> sqlx::Result<Option<LinkExtent>> {
    let extents = link_extents(pool, account_id, &[link_id]).await?;
    Ok(extents.into_iter().next())
}

/// Finds the first positions and the final states of links. Skips links that the account does not have.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn link_extents(
    pool: &PgPool,
    account_id: AccountId,
    link_ids: &[LinkId],
) -> sqlx::Result<Vec<LinkExtent>> {
    let link_ids: Vec<Uuid> = link_ids.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        r#"
        SELECT first.position AS "created_at!", last.type AS "last_type!"
        FROM unnest($2::uuid[]) AS link (link_id)
        -- Not a plain join: planned while there are no events, it would read all events of the shard.
        CROSS JOIN LATERAL (
            SELECT position FROM event_store.events
            WHERE shard = $1 AND stream_id = link.link_id AND version = 1 AND account_id = $3
              -- The account's own stream is not a link.
              AND stream_id <> account_id
            LIMIT 1
        ) AS first
        CROSS JOIN LATERAL (
            SELECT type FROM event_store.events
            WHERE shard = $1 AND stream_id = link.link_id
            ORDER BY version DESC
            LIMIT 1
        ) AS last
        "#,
        Shard::of(account_id).number(),
        &link_ids,
        account_id.uuid()
    )
    .fetch_all(pool)
    .await?;
    let extents = rows.into_iter().map(|row| LinkExtent {
        created_at: row.created_at,
        end_state: LinkEndState::of_last_event(&row.last_type),
    });
    Ok(extents.collect())
}

/// Reads the last event of each of these links. Skips links that their account does not have.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn last_link_events(
    executor: impl PgExecutor<'_>,
    links: &[(AccountId, LinkId)],
) -> sqlx::Result<Vec<RecordedEvent>> {
    let shards = links.iter().map(|(account, _)| Shard::of(*account));
    let shards: Vec<i16> = shards.map(Shard::number).collect();
    let account_ids: Vec<Uuid> = links.iter().map(|(account, _)| account.uuid()).collect();
    let link_ids: Vec<Uuid> = links.iter().map(|(_, link)| link.uuid()).collect();
    let rows = query_events!(
        r#"FROM unnest($1::smallint[], $2::uuid[], $3::uuid[])
            AS wanted (shard, account_id, link_id)
        -- Not a plain join: planned while there are no events, it would read whole shards.
        CROSS JOIN LATERAL (
            SELECT * FROM event_store.events
            WHERE shard = wanted.shard AND stream_id = wanted.link_id
            ORDER BY version DESC
            LIMIT 1
        ) AS e
        -- Not in the subquery: for the stream of another account it would read all versions.
        WHERE e.account_id = wanted.account_id
          -- The account's own stream is not a link.
          AND e.stream_id <> e.account_id
        "#,
        &shards,
        &account_ids,
        &link_ids
    )
    .fetch_all(executor)
    .await?;
    rows.into_iter().map(EventRow::into_event).collect()
}

/// Reads the first events of these links. Skips links that do not exist.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn link_beginnings(
    executor: impl PgExecutor<'_>,
    links: &[(Shard, LinkId)],
) -> sqlx::Result<Vec<RecordedEvent>> {
    let shards: Vec<i16> = links.iter().map(|(shard, _)| shard.number()).collect();
    let link_ids: Vec<Uuid> = links.iter().map(|(_, link_id)| link_id.uuid()).collect();
    let rows = query_events!(
        r#"FROM unnest($1::smallint[], $2::uuid[]) AS link (shard, link_id)
        -- Not a plain join: planned while there are no events, it would read all beginnings.
        CROSS JOIN LATERAL (
            -- Not *: query-api may not read idempotency keys.
            SELECT shard, position, stream_id, version, account_id, event_id, type, schema_version,
                   payload, metadata, recorded_at
            FROM event_store.events
            WHERE shard = link.shard AND stream_id = link.link_id
            ORDER BY version
            LIMIT 1
        ) AS e
        "#,
        &shards,
        &link_ids
    )
    .fetch_all(executor)
    .await?;
    rows.into_iter().map(EventRow::into_event).collect()
}
