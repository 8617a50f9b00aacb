//! Links of a shard during a check, each in 16 bytes: millions of links must fit into memory.
//!
//! The check keeps a hash of each stream's id and a hash of its link's state, both with random keys:
//! the check misses a fault, or reports a false one, once in billions of cases.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher as _,
};

use linkledger_core::{
    id::AccountId,
    link::{LinkEvent, LinkState},
};
use linkledger_event_store::log::stored::StoredEvent;

use super::accounts::follows;

/// Links of the checked events.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Links by the hash of their stream's id.
    streams: HashMap<u64, LastLink>,
    keys: RandomState,
}

/// Link after its last checked event.
#[derive(Debug, Clone, Copy, Default)]
struct LastLink {
    version: u32,
    /// Hash of the state and the account; [`UNKNOWN`] after an event that can't be read.
    state: u32,
}

const UNKNOWN: u32 = 0;

const UNSOUND: &str = "what the link is after it, by its metadata, is not what its events come to";

impl Links {
    pub(super) fn count(&self) -> usize {
        self.streams.len()
    }

    /// Applies an event of a link's stream, with the state of the link after it, and returns the faults;
    /// `event` is `None` if event or metadata can't be read, the state if the metadata have none.
    pub(super) fn apply(
        &mut self,
        stored: &StoredEvent<'_>,
        event: Option<(&LinkEvent, Option<&LinkState>)>,
    ) -> Vec<String> {
        let link = self
            .streams
            .entry(self.keys.hash_one(stored.stream_id.as_u128()))
            .or_default();
        let before = *link;
        let version = u32::try_from(stored.version).unwrap_or(u32::MAX);
        link.version = version;
        link.state = UNKNOWN;
        let mut faults = Vec::new();
        if version != before.version.saturating_add(1) {
            faults.push(follows(stored.version, before.version.into()));
        }
        let Some((event, after)) = event else {
            return faults;
        };
        let hash = |state: &LinkState| hash_of(&self.keys, stored.account_id, state);
        link.state = after.map_or(UNKNOWN, hash);
        if let LinkEvent::Created(created) = event {
            if before.version > 0 {
                faults.push("it was created before".to_owned());
            }
            let created = LinkState::new(created, stored.recorded_at);
            if after != Some(&created) {
                faults.push(UNSOUND.to_owned());
            }
            return faults;
        }
        // A gap is already reported as a fault of the version.
        if (before.version, version) == (0, 1) {
            faults.push("its stream begins with this, not with LinkCreated".to_owned());
        }
        let Some(after) = after else {
            faults.push("the metadata don't say what the link is after it".to_owned());
            return faults;
        };
        let expected = after.undo(event);
        let is_sound = expected
            .is_some_and(|expected| before.state == UNKNOWN || before.state == hash(&expected));
        if !is_sound {
            faults.push(UNSOUND.to_owned());
        }
        faults
    }
}

/// Returns half of a hash; never [`UNKNOWN`].
fn hash_of(keys: &RandomState, account_id: AccountId, state: &LinkState) -> u32 {
    let hash = keys.hash_one((account_id, state));
    #[expect(clippy::cast_possible_truncation, reason = "half of a hash is one")]
    let half = hash as u32;
    half.max(1)
}
