//! Parked accounts of a generation that is not served. Only the rebuild releases these accounts. A
//! generation must not be served while it parks an account that the served generation does not park:
//! the rows of the account would become stale.

use std::fmt;

use anyhow::{Context as _, ensure};
use linkledger_core::{id::AccountId, shard::Shard};
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{GenerationBuild, loading::Loader};
use crate::pipeline::{
    checkpoint::Role,
    parking::{
        ParkedAccount, Parking,
        listing::{next_after, parked_only_in},
        release::{CHUNK_EVENTS_MAX, ReleaseOutcome, ReleaseState, release},
    },
    retry::Retries,
};

/// Most accounts that are retried between two attempts of a swap.
const TRIED_AGAIN_MAX: i64 = 100;

/// Applies the waiting events of all parked accounts of the generation, up to one that still cannot be
/// applied.
///
/// # Errors
/// Returns an error if another command has changed the generation, if the log lacks an event, or if the
/// database fails for long.
pub(super) async fn release_all(loader: &Loader, build: GenerationBuild) -> anyhow::Result<()> {
    let has_parked = build.standing(&loader.databases.read).await?.has_parked;
    for shard in Shard::all().filter(|shard| has_parked[shard.index()]) {
        let mut account = ParkedAccount {
            projection: build.projection,
            generation: build.generation,
            shard,
            account_id: AccountId::from_uuid(Uuid::nil()),
        };
        while let Some(parking) =
            next_after(&loader.databases.read, build.role, shard, Some(account))
                .await
                .context("cannot read which accounts are parked")?
            && (parking.account.projection, parking.account.generation)
                == (build.projection, build.generation)
        {
            release_one(loader, build.role, &parking).await?;
            account = parking.account;
        }
    }
    Ok(())
}

/// Retries one account, and returns true if the account was released.
async fn release_one(loader: &Loader, role: Role, parking: &Parking) -> anyhow::Result<bool> {
    let mut retries = Retries::default();
    loop {
        match release(&loader.databases, parking, role, CHUNK_EVENTS_MAX).await {
            Ok(ReleaseOutcome { applied, state }) => {
                loader.pace.take(applied as u64).await;
                match state {
                    ReleaseState::Released => return Ok(true),
                    ReleaseState::Stuck(_) | ReleaseState::Paused => return Ok(false),
                    ReleaseState::Unfinished if applied > 0 => retries.reset(),
                    ReleaseState::Unfinished => ensure!(
                        retries.wait().await,
                        "another process releases `{}`; is another rebuild running?",
                        parking.account.account_id
                    ),
                }
            }
            Err(error) => retries.wait_after(error).await?,
        }
    }
}

/// Accounts that are parked in a generation but not in the served one.
#[derive(Debug, Clone, Serialize)]
pub struct WouldPark {
    /// Number of the accounts.
    pub accounts: i64,
    /// First account.
    pub first_account_id: AccountId,
    /// Event for which the first account is parked, and the reason.
    pub first_reason: String,
    /// First accounts, up to the number that is retried at once.
    #[serde(skip)]
    some: Vec<Parking>,
}

impl WouldPark {
    /// Returns the accounts that a swap would park; `None` if there are none. Both generations must be
    /// of the same epoch.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub(super) async fn of(
        tx: &mut PgConnection,
        build: GenerationBuild,
    ) -> anyhow::Result<Option<Self>> {
        let of = (build.projection, build.generation);
        let (some, accounts) = parked_only_in(tx, of, build.live, TRIED_AGAIN_MAX)
            .await
            .context("cannot read which accounts are parked")?;
        let Some(Parking { account, cause }) = some.first() else {
            return Ok(None);
        };
        Ok(Some(Self {
            accounts,
            first_account_id: account.account_id,
            first_reason: format!(
                "`{}` at position {} of shard {}: {}",
                cause.event_type, cause.position, account.shard, cause.poison.detail
            ),
            some,
        }))
    }

    /// Retries some of the accounts: the served generation may have released them a moment ago.
    /// Returns true if an account was released.
    ///
    /// # Errors
    /// Returns an error as [`release_all`] does.
    pub(super) async fn release_any(
        &self,
        loader: &Loader,
        build: GenerationBuild,
    ) -> anyhow::Result<bool> {
        let mut is_any_released = false;
        for parking in &self.some {
            is_any_released |= release_one(loader, build.role, parking).await?;
        }
        Ok(is_any_released)
    }
}

impl fmt::Display for WouldPark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            accounts,
            first_account_id,
            first_reason,
            ..
        } = self;
        match accounts {
            1 => write!(f, "1 account would be parked that is not"),
            accounts => write!(f, "{accounts} accounts would be parked that are not"),
        }?;
        write!(
            f,
            " (first: `{first_account_id}`, for {first_reason}). Is this `projector` older than the \
             running one, or that one behind? Mend that and run the command again"
        )
    }
}
