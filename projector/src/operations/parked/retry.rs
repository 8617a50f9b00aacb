//! Retry of the waiting events of parked accounts.

use anyhow::Context as _;
use linkledger_core::{id::AccountId, shard::Shard};
use serde::Serialize;
use sqlx::PgPool;
use tokio::time;

use super::PARKINGS_OF_ACCOUNT_MAX;
use crate::{
    operations::rebuild::generation,
    pipeline::{
        parking::{
            ParkedAccount, Parking,
            listing::{self, ListedParking},
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
    /// Reason for the remaining parking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Retries the waiting events of one account, or of every parked account.
///
/// # Errors
/// Returns an error if the database does not answer, or the log lacks an event.
pub async fn retry(
    pool: &PgPool,
    account_id: Option<AccountId>,
) -> anyhow::Result<Vec<RetriedAccount>> {
    let mut retried = Vec::new();
    if account_id.is_some() {
        let parked = listing::list(pool, account_id, PARKINGS_OF_ACCOUNT_MAX).await;
        for ListedParking { parking, .. } in
            parked.context("cannot read which accounts are parked")?
        {
            retried.push(retry_one(pool, &parking).await?);
        }
        return Ok(retried);
    }
    for shard in Shard::all() {
        let mut after = None;
        while let Some(parking) = listing::next_after(pool, shard, after)
            .await
            .context("cannot read which accounts are parked")?
        {
            retried.push(retry_one(pool, &parking).await?);
            after = Some(parking.account);
        }
    }
    Ok(retried)
}

async fn retry_one(pool: &PgPool, parking: &Parking) -> anyhow::Result<RetriedAccount> {
    let mut retried = RetriedAccount {
        account_id: parking.account.account_id,
        projection: parking.account.projection.name(),
        released: false,
        applied: 0,
        detail: Some(
            "new events arrived faster than they were applied; run the command again".to_owned(),
        ),
    };
    let mut contested = 0;
    let mut backoff = Backoff::default();
    for _ in 0..CHUNKS_MAX {
        let attempt = release(pool, parking, CHUNK_EVENTS_MAX).await?;
        retried.applied += attempt.applied;
        match attempt.state {
            ReleaseState::Unfinished if attempt.applied > 0 => {
                contested = 0;
                backoff.reset();
            }
            ReleaseState::Unfinished => {
                contested += 1;
                let detail = if !is_served(pool, parking.account).await? {
                    "another generation is served by now; run the command again"
                } else if contested == CONTESTED_MAX {
                    "another process releases the account; run the command again"
                } else {
                    time::sleep(backoff.next_delay()).await;
                    continue;
                };
                retried.detail = Some(detail.to_owned());
                break;
            }
            ReleaseState::Released => {
                retried.released = true;
                retried.detail = None;
                break;
            }
            ReleaseState::Stuck(cause) => {
                retried.detail = Some(cause.poison.detail);
                break;
            }
            ReleaseState::Paused => {
                let projection = retried.projection;
                retried.detail = Some(format!(
                    "`{projection}` is paused; run `projector resume {projection}` first"
                ));
                break;
            }
        }
    }
    Ok(retried)
}

/// Returns true if queries read the account's generation.
async fn is_served(pool: &PgPool, account: ParkedAccount) -> anyhow::Result<bool> {
    Ok(generation::active(pool, account.projection).await? == account.generation)
}
