//! Accounts that are parked in a generation that is not served. Nobody else releases them, and it
//! is not served while it parks somebody whom the served one serves: his rows would be gone, and
//! what is asked of him would be refused.

use std::fmt;

use anyhow::{Context as _, ensure};
use linkledger_core::{id::AccountId, shard::Shard};
use serde::Serialize;
use sqlx::PgConnection;
use tokio::time::sleep;

use super::{Build, loading::Loader};
use crate::pipeline::{
    checkpoint::{Role, generation::Standing},
    parking::{
        Parking, listing,
        release::{CHUNK_EVENTS_MAX, Release, State, release_as},
    },
    retry::{self, Backoff},
};

/// Most failures in a row, of one account, that may pass by themselves.
const FAILURES_MAX: u32 = 20;
/// Most accounts that are tried again between two attempts of a swap.
const TRIED_AGAIN_MAX: i64 = 100;

/// Applies what waits of all who are parked in the generation, wherever that is possible.
///
/// # Errors
/// When the generation is not what it was, the log lacks an event, or the database does not answer
/// for long.
pub(super) async fn release_all(loader: &Loader, build: Build) -> anyhow::Result<()> {
    let of = (build.projection, build.generation);
    let Standing { has_parked, .. } = build.standing(&loader.pool).await?;
    for shard in Shard::all().filter(|shard| has_parked[shard.index()]) {
        let mut after = None;
        while let Some(parking) = listing::next_of(&loader.pool, of, shard, after)
            .await
            .context("can't read who is parked")?
        {
            release_one(loader, build.role, &parking).await?;
            after = Some(parking.account.account_id);
        }
    }
    Ok(())
}

/// Whether the account is parked no longer.
async fn release_one(loader: &Loader, role: Role, parking: &Parking) -> anyhow::Result<bool> {
    let mut backoff = Backoff::default();
    let mut failures = 0;
    loop {
        match release_as(&loader.pool, parking, role, CHUNK_EVENTS_MAX).await {
            Ok(Release { applied, state }) => {
                loader.pace.take(applied as u64).await;
                match state {
                    State::Released => return Ok(true),
                    State::Stuck(_) | State::Paused => return Ok(false),
                    State::Unfinished if applied > 0 => {
                        failures = 0;
                        backoff.reset();
                        continue;
                    }
                    State::Unfinished => {}
                }
            }
            Err(error) if retry::passes_by_itself(&error) && failures < FAILURES_MAX => {}
            Err(error) => return Err(error),
        }
        failures += 1;
        ensure!(
            failures <= FAILURES_MAX,
            "somebody else releases `{}`; is another rebuild running?",
            parking.account.account_id
        );
        sleep(backoff.next_delay()).await;
    }
}

/// Accounts that are parked in a generation and served by the one that is served.
#[derive(Debug, Clone, Serialize)]
pub struct WouldPark {
    /// How many.
    pub accounts: i64,
    /// The first of them.
    pub first_account_id: AccountId,
    /// The event that it is parked for, and why.
    pub first_reason: String,
    /// That one, and those behind it.
    #[serde(skip)]
    some: Vec<Parking>,
}

impl WouldPark {
    /// Who would be parked if the generation were served; `None` if nobody would. Both generations
    /// are of one epoch.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(super) async fn of(tx: &mut PgConnection, build: Build) -> anyhow::Result<Option<Self>> {
        let of = (build.projection, build.generation);
        let (some, accounts) = listing::parked_only_in(tx, of, build.live, TRIED_AGAIN_MAX)
            .await
            .context("can't read who is parked")?;
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

    /// Tries to release some of them: they may have been released a moment ago where they are
    /// served. Whether any could be.
    ///
    /// # Errors
    /// As [`release_all`].
    pub(super) async fn release_any(&self, loader: &Loader, build: Build) -> anyhow::Result<bool> {
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
