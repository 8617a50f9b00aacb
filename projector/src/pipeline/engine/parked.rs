//! Who of a cycle's accounts is parked, and the releases that are tried by themselves.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use anyhow::Context as _;
use linkledger_core::shard::Shard;
use uuid::Uuid;

use super::{
    Engine,
    admission::Admission,
    tenure::{Attempt, Releases},
};
use crate::{
    pipeline::{
        apply,
        decode::RunEvent,
        parking::{
            ParkedAccount, Parking, listing,
            release::{CHUNK_EVENTS_MAX, Release, State, release},
            table,
        },
        retry,
    },
    read_models::skipped::Skipped,
};

impl Engine {
    /// Reads the payloads. What can't be read, and is not in the log like that, is left to be read
    /// from there.
    pub(super) async fn read_payloads(
        &mut self,
        admission: Admission,
    ) -> anyhow::Result<BTreeMap<Shard, Vec<RunEvent>>> {
        let mut read = BTreeMap::new();
        for (shard, events) in admission {
            let events: Vec<RunEvent> = events.into_iter().map(RunEvent::read).collect();
            let unreadable: Vec<_> = events.iter().filter_map(RunEvent::unreadable).collect();
            let is_true = unreadable.is_empty()
                || apply::is_in_log(&self.pool, shard, &unreadable)
                    .await
                    .context("can't read the event store")?;
            if is_true {
                read.insert(shard, events);
                continue;
            }
            tracing::warn!(%shard, "the topic differs from the log: reading the event store");
            let progress = self.progress(shard).expect("events are admitted by it");
            let last = events.last().expect("something is admitted");
            progress.owe(last.recorded().position);
        }
        Ok(read)
    }

    /// Which accounts of these events are parked. Asks only if somebody is: memory does not grow
    /// with their number, and what has changed since the answer makes the transaction fail.
    pub(super) async fn parked_among(
        &self,
        events: &BTreeMap<Shard, Vec<RunEvent>>,
    ) -> anyhow::Result<BTreeSet<ParkedAccount>> {
        let affected = events.iter().filter(|(shard, _)| {
            let tenure = self.tenures.get(shard);
            tenure.is_some_and(|tenure| tenure.has_parked)
        });
        let account_ids: BTreeSet<Uuid> = affected
            .flat_map(|(_, events)| {
                events
                    .iter()
                    .map(|event| event.recorded().account_id.uuid())
            })
            .collect();
        if account_ids.is_empty() {
            return Ok(BTreeSet::new());
        }
        let account_ids: Vec<Uuid> = account_ids.into_iter().collect();
        table::parked_among(&self.pool, &account_ids)
            .await
            .context("can't read which accounts are parked")
    }

    /// Which of these events are left out. Asks only if some are ahead.
    pub(super) async fn skipped_among(
        &self,
        events: &BTreeMap<Shard, Vec<RunEvent>>,
    ) -> anyhow::Result<Skipped> {
        let affected = events.iter().filter_map(|(shard, events)| {
            let is_affected = self.tenures.get(shard)?.has_skipped;
            let (first, last) = (events.first()?.recorded(), events.last()?.recorded());
            is_affected.then_some((*shard, first.position..=last.position))
        });
        let affected: Vec<_> = affected.collect();
        Skipped::within(&self.pool, &affected)
            .await
            .context("can't read which events are left out")
    }

    /// Tries to release one parked account, or goes on with it: a chunk for each cycle, so that
    /// nobody waits for long. It never fails a cycle: who is parked must not hold up the others.
    pub(super) async fn release_next(&mut self) {
        let due = self.tenures.iter_mut().find_map(|(shard, tenure)| {
            if tenure.progress.is_none() || !tenure.is_release_due() {
                return None;
            }
            match mem::replace(&mut tenure.releases, Releases::Done) {
                Releases::Due(attempt) => Some((*shard, attempt)),
                Releases::Done => None,
            }
        });
        let Some((shard, attempt)) = due else {
            return;
        };
        let next = self.try_release(shard, attempt).await;
        if let Some(tenure) = self.tenures.get_mut(&shard) {
            tenure.releases = next.map_or(Releases::Done, Releases::Due);
        }
    }

    /// What is to be tried next: the rest of this account, the same again, or the one behind it.
    async fn try_release(&self, shard: Shard, attempt: Attempt) -> Option<Attempt> {
        let next = listing::next_after(&self.pool, shard, attempt.after)
            .await
            .context("can't read who is parked");
        let parking = match next {
            Ok(parking) => parking?,
            Err(error) => {
                let passes = retry::passes_by_itself(&error);
                let error = format!("{error:#}");
                tracing::warn!(%shard, error, "nobody is released");
                return if passes { attempt.again() } else { None };
            }
        };
        let Parking { account, .. } = parking;
        let (account_id, projection) = (account.account_id, account.projection);
        let again = match release(&self.pool, &parking, CHUNK_EVENTS_MAX).await {
            Ok(Release { state, applied }) => match state {
                State::Released => {
                    tracing::info!(%account_id, %projection, "a parked account is released");
                    None
                }
                State::Unfinished if applied > 0 => Some(Attempt::after(attempt.after)),
                State::Unfinished => attempt.again(),
                State::Stuck(_) | State::Paused => None,
            },
            Err(error) => {
                let passes = retry::passes_by_itself(&error);
                let error = format!("{error:#}");
                tracing::warn!(%account_id, %projection, error, "can't release the account");
                if passes { attempt.again() } else { None }
            }
        };
        again.or_else(|| Some(Attempt::after(Some(account))))
    }
}
