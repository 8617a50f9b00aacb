//! Reads the parked accounts and the skipped events of a cycle, and releases parked accounts
//! automatically.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::Context as _;
use linkledger_core::shard::Shard;
use tokio::time::Instant;

use super::{Followers, claimed_shard::Group, follower::Follower};
use crate::{
    pipeline::{
        checkpoint::Role,
        decode::BatchEvent,
        parking::{
            ParkedAccount, Parking, listing,
            release::{CHUNK_EVENTS_MAX, ReleaseOutcome, ReleaseState, release},
            table,
        },
        retry::{self, Backoff},
    },
    read_models::skipped::Skipped,
};

/// Maximum number of retries of one release: with the backoffs, some minutes.
const RETRIES_MAX: u32 = 60;

/// The next attempt to release a parked account.
#[derive(Debug)]
pub(super) struct ReleaseAttempt {
    /// Account before the one to release, in the order of the keys; `None` for the first account.
    pub(super) after: Option<ParkedAccount>,
    not_before: Option<Instant>,
    retries: u32,
    backoff: Backoff,
}

impl ReleaseAttempt {
    /// Returns an attempt that is due at once, for the account that follows `after`.
    pub(super) fn after(after: Option<ParkedAccount>) -> Self {
        Self {
            after,
            not_before: None,
            retries: 0,
            backoff: Backoff::default(),
        }
    }

    /// Returns the retry of the same account after a backoff; `None` after [`RETRIES_MAX`] retries.
    fn retry(mut self) -> Option<Self> {
        self.retries += 1;
        self.not_before = Some(Instant::now() + self.backoff.next_delay());
        (self.retries <= RETRIES_MAX).then_some(self)
    }

    /// Returns the retry after a transient error.
    fn retry_after(self, error: &anyhow::Error) -> Option<Self> {
        retry::passes_by_itself(error).then_some(self)?.retry()
    }

    /// Returns true if the backoff is over.
    pub(super) fn is_due(&self) -> bool {
        self.not_before.is_none_or(|at| Instant::now() >= at)
    }
}

impl Followers {
    /// Returns the parked accounts among the accounts of the events. Queries only for followers with parked accounts.
    /// Memory does not grow with the number of parked accounts; if an account is released after the query, the
    /// transaction reports a conflict.
    pub(super) async fn parked_among(
        &self,
        batches: &[(Group, Vec<Arc<BatchEvent>>)],
    ) -> anyhow::Result<BTreeSet<ParkedAccount>> {
        let affected = batches
            .iter()
            .filter(|(group, _)| self.any_of(group, |it| it.has_parked));
        let events = affected.flat_map(|(_, events)| events.iter().map(AsRef::as_ref));
        table::parked_among(&self.databases.read, events)
            .await
            .context("cannot read which accounts are parked")
    }

    /// Returns the skipped events among these. Queries only for followers with a skipped event above
    /// their checkpoint.
    pub(super) async fn skipped_among(
        &self,
        batches: &[(Group, Vec<Arc<BatchEvent>>)],
    ) -> anyhow::Result<Skipped> {
        let affected = batches
            .iter()
            .filter(|(group, _)| self.any_of(group, |it| it.has_skipped));
        let affected: Vec<_> = affected
            .filter_map(|(group, events)| {
                let last = events.last()?.recorded().position;
                Some((group.shard, group.position + 1..=last))
            })
            .collect();
        Skipped::within(&self.databases.read, &affected)
            .await
            .context("cannot read which events are skipped")
    }

    fn any_of(&self, group: &Group, has: impl Fn(&Follower) -> bool) -> bool {
        let claimed = self.shards.get(&group.shard);
        claimed.is_some_and(|claimed| claimed.followers.iter().any(has))
    }

    /// Releases one chunk of one parked account, if a release is due. One chunk per cycle keeps the
    /// cycle short. A failed release never fails the cycle: the other accounts go on.
    pub(super) async fn release_next(&mut self) {
        let due = self.shards.iter_mut().find_map(|(shard, claimed)| {
            if !claimed.is_release_due() {
                return None;
            }
            Some((*shard, claimed.next_release.take()?))
        });
        let Some((shard, attempt)) = due else {
            return;
        };
        let next = self.try_release(shard, attempt).await;
        if let Some(claimed) = self.shards.get_mut(&shard) {
            claimed.next_release = next;
        }
    }

    /// Makes one attempt, and returns the next one: the next chunk of the same account, a retry
    /// after a backoff, or the next account. `None` after the last parked account of the shard.
    async fn try_release(&self, shard: Shard, attempt: ReleaseAttempt) -> Option<ReleaseAttempt> {
        let next = listing::next_after(&self.databases.read, Role::Live, shard, attempt.after)
            .await
            .context("cannot read the parked accounts");
        let parking = match next {
            Ok(parking) => parking?,
            Err(error) => {
                let text = format!("{error:#}");
                tracing::warn!(%shard, error = text, "cannot release the parked accounts of the shard");
                return attempt.retry_after(&error);
            }
        };
        let Parking { account, .. } = parking;
        let (account_id, projection) = (account.account_id, account.projection);
        let released = release(&self.databases, &parking, Role::Live, CHUNK_EVENTS_MAX).await;
        let same_account = match released {
            Ok(ReleaseOutcome { state, applied }) => match state {
                ReleaseState::Released => {
                    tracing::info!(%account_id, %projection, "a parked account is released");
                    None
                }
                ReleaseState::Unfinished if applied > 0 => {
                    Some(ReleaseAttempt::after(attempt.after))
                }
                ReleaseState::Unfinished => attempt.retry(),
                ReleaseState::Stuck(_) | ReleaseState::Paused => None,
            },
            Err(error) => {
                let text = format!("{error:#}");
                tracing::warn!(%account_id, %projection, error = text, "cannot release the account");
                attempt.retry_after(&error)
            }
        };
        same_account.or_else(|| Some(ReleaseAttempt::after(Some(account))))
    }
}
