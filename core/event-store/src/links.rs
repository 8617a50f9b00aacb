//! Links according to the log: the last event of a stream describes the whole link.

use std::collections::HashMap;

use sqlx::{PgConnection, PgPool};

use super::{log, unreadable};
use linkledger_core::{
    commands::ChangeResult,
    event::DecodeError,
    id::{AccountId, LinkId},
    shard::Shard,
};

/// Loads the links that exist in the given accounts, including deleted links.
///
/// Must be a separate statement after the accounts are locked: only a new snapshot sees the commits
/// that happened while the lock was waited for.
///
/// # Errors
/// Returns an error if the database fails. Also returns an error if a later release
/// created or changed a link in a way that this release does not know: no decision may be based on
/// a guess of the link's state, and the next event would lose the values of unknown members.
pub async fn load_in_tx(
    tx: &mut PgConnection,
    links: &[(AccountId, LinkId)],
) -> sqlx::Result<HashMap<(AccountId, LinkId), ChangeResult>> {
    if links.is_empty() {
        return Ok(HashMap::new());
    }
    let events = log::last_link_events(tx, links).await?;
    let settled = events.into_iter().map(|event| {
        let link_id = LinkId::from_uuid(event.stream_id);
        let link = event.link_after();
        let link = link.map_err(|source| unreadable(UnreadableLink { link_id, source }))?;
        let settled = ChangeResult {
            link,
            position: event.position,
        };
        Ok(((event.account_id, link_id), settled))
    });
    settled.collect()
}

/// Finds the account of a link in any shard. One look-up for each shard: meant for operators, not
/// for requests.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_owner(pool: &PgPool, link_id: LinkId) -> sqlx::Result<Option<AccountId>> {
    let shards: Vec<i16> = Shard::all().map(Shard::number).collect();
    let owner = sqlx::query_scalar!(
        "
        SELECT account_id FROM event_store.events
        WHERE shard = ANY($1) AND stream_id = $2 AND version = 1
          -- The account's own stream is not a link.
          AND stream_id <> account_id
        ",
        &shards,
        link_id.uuid()
    )
    .fetch_optional(pool)
    .await?;
    Ok(owner.map(AccountId::from_uuid))
}

/// Adds the id of the link to the error, for the log.
#[derive(Debug, thiserror::Error)]
#[error("link {link_id} cannot be read by this release")]
struct UnreadableLink {
    link_id: LinkId,
    source: DecodeError,
}
