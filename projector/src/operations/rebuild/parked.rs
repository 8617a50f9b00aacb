//! Parked accounts of a generation that is not served. Only the rebuild releases these accounts. A
//! generation must not be served while it parks an account that the served generation does not park:
//! the rows of the account would become stale.

use std::fmt;

use anyhow::{Context as _, ensure};
use linkledger_core::{id::AccountId, shard::Shard};
use serde::Serialize;
use sqlx::PgConnection;
use tokio::time::sleep;

use super::{GenerationBuild, loading::Loader};
use crate::pipeline::{
    checkpoint::{Role, generation::GenerationProgress},
    parking::{
        Parking, listing,
        release::{CHUNK_EVENTS_MAX, ReleaseOutcome, ReleaseState, release_as},
    },
    retry::{self, Backoff},
};

/// Most transient failures of an account in a row.
const FAILURES_MAX: u32 = 20;
/// Most accounts that are retried between two attempts of a swap.
const TRIED_AGAIN_MAX: i64 = 100;

/// Applies the waiting events of all parked accounts of the generation, up to one that still cannot be
/// applied.
///
/// # Errors
/// Returns an error if another command has changed the generation, if the log lacks an event, or if the
/// database does not answer for long.
pub(super) async fn release_all(loader: &Loader, build: GenerationBuild) -> anyhow::Result<()> {
    let of = (build.projection, build.generation);
    let GenerationProgress { has_parked, .. } = build.standing(&loader.pool).await?;
    for shard in Shard::all().filter(|shard| has_parked[shard.index()]) {
        let mut after = None;
        while let Some(parking) = listing::next_of(&loader.pool, of, shard, after)
            .await
            .context("cannot read who is parked")?
        {
            release_one(loader, build.role, &parking).await?;
            after = Some(parking.account.account_id);
        }
    }
    Ok(())
}

/// Retries one account, and returns true if the account was released.
async fn release_one(loader: &Loader, role: Role, parking: &Parking) -> anyhow::Result<bool> {
    let mut backoff = Backoff::default();
    let mut failures = 0;
    loop {
        match release_as(&loader.pool, parking, role, CHUNK_EVENTS_MAX).await {
            Ok(ReleaseOutcome { applied, state }) => {
                loader.pace.take(applied as u64).await;
                match state {
                    ReleaseState::Released => return Ok(true),
                    ReleaseState::Stuck(_) | ReleaseState::Paused => return Ok(false),
                    ReleaseState::Unfinished if applied > 0 => {
                        failures = 0;
                        backoff.reset();
                        continue;
                    }
                    ReleaseState::Unfinished => {}
                }
            }
            Err(error) if retry::passes_by_itself(&error) && failures < FAILURES_MAX => {}
            Err(error) => return Err(error),
        }
        failures += 1;
        ensure!(
            failures <= FAILURES_MAX,
            "another process releases `{}`; is another rebuild running?",
            parking.account.account_id
        );
        sleep(backoff.next_delay()).await;
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
    /// Returns an error if the database does not answer.
    pub(super) async fn of(
        tx: &mut PgConnection,
        build: GenerationBuild,
    ) -> anyhow::Result<Option<Self>> {
        let of = (build.projection, build.generation);
        let (some, accounts) = listing::parked_only_in(tx, of, build.live, TRIED_AGAIN_MAX)
            .await
            .context("cannot read who is parked")?;
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
