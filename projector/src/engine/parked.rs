//! Who of a cycle's accounts is parked, and the releases that are tried by themselves.

use std::collections::BTreeSet;

use anyhow::Context as _;
use linkledger_core::shard::Shard;
use uuid::Uuid;

use super::{Engine, admission::Admission, tenure::Releases};
use crate::parking::{
    ParkedAccount, Parking, listing,
    release::{CHUNK_EVENTS_MAX, State, release},
    table,
};

impl Engine {
    /// Which accounts of these events are parked. Asks only if somebody is: memory does not grow
    /// with their number, and what has changed since the answer makes the transaction fail.
    pub(super) async fn parked_among(
        &self,
        admission: &Admission,
    ) -> anyhow::Result<BTreeSet<ParkedAccount>> {
        let affected = admission.iter().filter(|(shard, _)| {
            let tenure = self.tenures.get(shard);
            tenure.is_some_and(|tenure| tenure.has_parked)
        });
        let account_ids: BTreeSet<Uuid> = affected
            .flat_map(|(_, events)| events.iter().map(|event| event.account_id.uuid()))
            .collect();
        if account_ids.is_empty() {
            return Ok(BTreeSet::new());
        }
        let account_ids: Vec<Uuid> = account_ids.into_iter().collect();
        table::parked_among(&self.pool, &account_ids)
            .await
            .context("can't read which accounts are parked")
    }

    /// Tries to release one parked account, or goes on with it: a chunk for each cycle, so that
    /// nobody waits for long. It never fails a cycle: who is parked must not hold up the others.
    pub(super) async fn release_next(&mut self) {
        let due = self.tenures.iter().find_map(|(shard, tenure)| {
            let Releases::Due(after) = tenure.releases else {
                return None;
            };
            tenure.progress.as_ref().map(|_| (*shard, after))
        });
        let Some((shard, after)) = due else {
            return;
        };
        let next = self.try_release(shard, after).await;
        if let Some(tenure) = self.tenures.get_mut(&shard) {
            tenure.releases = next;
        }
    }

    async fn try_release(&self, shard: Shard, after: Option<ParkedAccount>) -> Releases {
        let parking = match listing::next_after(&self.pool, shard, after).await {
            Ok(Some(parking)) => parking,
            Ok(None) => return Releases::Done,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%shard, error, "can't read who is parked: nobody is released");
                return Releases::Done;
            }
        };
        let Parking { account, .. } = parking;
        let (account_id, projection) = (account.account_id, account.projection);
        match release(&self.pool, &parking, CHUNK_EVENTS_MAX).await {
            Ok(attempt) => match attempt.state {
                State::Released => {
                    tracing::info!(%account_id, %projection, "a parked account is released");
                }
                State::Unfinished => return Releases::Due(after),
                State::Stuck(_) => {}
            },
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(%account_id, %projection, error, "can't release the account");
            }
        }
        Releases::Due(Some(account))
    }
}
