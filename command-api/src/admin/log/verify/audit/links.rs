//! Links of a shard during a check, each in 16 bytes: millions of links must fit into memory.
//!
//! The check keeps a hash of each stream's id and a hash of its link's state, both with random keys:
//! the check misses a fault, or reports a false one, once in billions of cases.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher as _,
};

use linkledger_core::{
    event_store::log::stored::StoredEvent,
    id::AccountId,
    link::{LinkEvent, LinkState},
};

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
    state: StateHash,
}

/// Hash of the state and the account of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct StateHash(u32);

/// State of a link after an event that can't be read.
const UNKNOWN: StateHash = StateHash(0);

impl Links {
    pub(super) fn count(&self) -> usize {
        self.streams.len()
    }

    /// Applies an event of a link's stream, with the state of the link in its metadata, and returns the
    /// faults; `event` is `None` if event or metadata can't be read.
    pub(super) fn apply(
        &mut self,
        stored: &StoredEvent<'_>,
        event: Option<(&LinkEvent, Option<&LinkState>)>,
    ) -> Vec<String> {
        let key = self.keys.hash_one(stored.stream_id.as_u128());
        let link = self.streams.entry(key).or_default();
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
        let hash = |state: &LinkState| StateHash::of(&self.keys, stored.account_id, state);
        if let LinkEvent::Created(created) = event {
            if before.version > 0 {
                faults.push("it was created before".to_owned());
            }
            let hash = hash(&LinkState::new(created));
            self.set_state(key, hash);
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
        let is_sound = after
            .undo(event)
            .is_some_and(|expected| before.state == UNKNOWN || before.state == hash(&expected));
        if !is_sound {
            let fault =
                "what the link is after it, by its metadata, is not what its events come to";
            faults.push(fault.to_owned());
        }
        let hash = hash(after);
        self.set_state(key, hash);
        faults
    }

    fn set_state(&mut self, key: u64, state: StateHash) {
        if let Some(link) = self.streams.get_mut(&key) {
            link.state = state;
        }
    }
}

impl StateHash {
    fn of(keys: &RandomState, account_id: AccountId, state: &LinkState) -> Self {
        let LinkState {
            destination_url,
            disabled,
            disabled_by_owner,
            deleted,
            details: _,
        } = state;
        let disabled = (disabled, disabled_by_owner);
        // Details that were all removed are none.
        let details = state.details();
        let hash = keys.hash_one((account_id, destination_url, disabled, deleted, details));
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is one")]
        Self((hash as u32).max(1))
    }
}
