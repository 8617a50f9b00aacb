//! Retry of the waiting events of parked accounts.

use anyhow::Context as _;
use linkledger_core::{id::AccountId, shard::Shard};
use linkledger_service::databases::Databases;
use serde::Serialize;
use sqlx::PgPool;
use tokio::time;

use super::{PARKINGS_OF_ACCOUNT_MAX, list};
use crate::{
    operations::rebuild::generation,
    pipeline::{
        checkpoint::Role,
        parking::{
            ParkedAccount, Parking, listing,
            release::{CHUNK_EVENTS_MAX, ReleaseState, release},
        },
        retry::Backoff,
    },
};

/// Maximum number of chunks of one account, so that the command ends even while new events arrive.
const CHUNKS_MAX: u32 = 10_000;
/// Maximum number of consecutive attempts blocked by another process.
const CONTESTED_MAX: u32 = 6;

/// Outcome of a retry, for one account in one projection.
#[derive(Debug, Serialize)]
pub struct RetriedAccount {
    /// Id of the account.
    pub account_id: AccountId,
    /// Name of the projection.
    pub projection: &'static str,
    /// True if the account is no longer parked.
    pub released: bool,
    /// Number of applied events.
    pub applied: usize,
    /// Reason why the account is still parked; `None` if released.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Applies the waiting events of one account, or of every parked account, in each projection in which
/// the account is parked (see [`pipeline::parking`](crate::pipeline::parking)).
///
/// # Errors
/// Returns an error if the database fails, or the log lacks an event.
pub async fn retry(
    databases: &Databases,
    account_id: Option<AccountId>,
) -> anyhow::Result<Vec<RetriedAccount>> {
    let mut retried = Vec::new();
    if account_id.is_some() {
        for listed in list(&databases.read, account_id, PARKINGS_OF_ACCOUNT_MAX).await? {
            retried.push(retry_one(databases, &listed.parking).await?);
        }
        return Ok(retried);
    }
    for shard in Shard::all() {
        let mut after = None;
        while let Some(parking) = listing::next_after(&databases.read, Role::Live, shard, after)
            .await
            .context("cannot read which accounts are parked")?
        {
            retried.push(retry_one(databases, &parking).await?);
            after = Some(parking.account);
        }
    }
    Ok(retried)
}

async fn retry_one(databases: &Databases, parking: &Parking) -> anyhow::Result<RetriedAccount> {
    let account = parking.account;
    let projection = account.projection.name();
    let mut detail =
        Some("new events arrived faster than they were applied; run the command again".to_owned());
    let (mut applied, mut contested, mut backoff) = (0, 0, Backoff::default());
    for _ in 0..CHUNKS_MAX {
        let attempt = release(databases, parking, Role::Live, CHUNK_EVENTS_MAX).await?;
        applied += attempt.applied;
        detail = match attempt.state {
            ReleaseState::Unfinished if attempt.applied > 0 => {
                contested = 0;
                backoff.reset();
                continue;
            }
            ReleaseState::Unfinished => {
                contested += 1;
                if !is_served(&databases.read, account).await? {
                    Some("another generation is served by now; run the command again".to_owned())
                } else if contested == CONTESTED_MAX {
                    Some("another process releases the account; run the command again".to_owned())
                } else {
                    time::sleep(backoff.next_delay()).await;
                    continue;
                }
            }
            ReleaseState::Released => None,
            ReleaseState::Stuck(cause) => Some(cause.poison.detail),
            ReleaseState::Paused => Some(format!(
                "`{projection}` is paused; run `projector resume {projection}` first"
            )),
        };
        break;
    }
    Ok(RetriedAccount {
        account_id: account.account_id,
        projection,
        released: detail.is_none(),
        applied,
        detail,
    })
}

/// Returns true if queries read the account's generation.
async fn is_served(pool: &PgPool, account: ParkedAccount) -> anyhow::Result<bool> {
    Ok(generation::active(pool, account.projection).await? == account.generation)
}
