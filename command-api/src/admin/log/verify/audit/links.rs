//! Links of a shard during a check, each in 16 bytes: millions of links must fit into memory.
//!
//! The check keeps a hash of each stream's id and a hash of its link's state, both with random keys:
//! the check misses a fault, or reports a false one, once in billions of cases.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher, BuildHasherDefault, Hasher},
};

use linkledger_core::{
    id::AccountId,
    link::{LinkEvent, LinkState},
};
use uuid::Uuid;

/// Fault of an event of a link's stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The version does not follow the version before.
    Version { before: u32 },
    /// The link was created before.
    CreatedAgain,
    /// The first event of the stream creates no link.
    NotCreated,
    /// The metadata of a later event lack the state of the link.
    MetadataLacksState,
    /// The state of the link in the metadata is not the result of the event.
    StateDoesNotFollow,
}

/// Links of the checked events.
#[derive(Debug, Default)]
pub(super) struct Links {
    streams: HashMap<u64, LinkAt, BuildHasherDefault<IsHash>>,
    keys: RandomState,
}

/// Link after its last checked event.
#[derive(Debug, Clone, Copy, Default)]
struct LinkAt {
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

    /// Applies an event and returns its faults; `event` is `None` if the event can't be read.
    pub(super) fn apply(
        &mut self,
        stream_id: Uuid,
        version: i64,
        account_id: AccountId,
        event: Option<(&LinkEvent, Option<&LinkState>)>,
    ) -> Vec<Fault> {
        let key = self.keys.hash_one(stream_id.as_u128());
        let link = self.streams.entry(key).or_default();
        let before = *link;
        let version = u32::try_from(version).unwrap_or(u32::MAX);
        link.version = version;
        link.state = UNKNOWN;
        let mut faults = Vec::new();
        if version != before.version.saturating_add(1) {
            let before = before.version;
            faults.push(Fault::Version { before });
        }
        let Some((event, after)) = event else {
            return faults;
        };
        let hash = |state: &LinkState| StateHash::of(&self.keys, account_id, state);
        if let LinkEvent::Created(created) = event {
            if before.version > 0 {
                faults.push(Fault::CreatedAgain);
            }
            link.state = hash(&LinkState {
                destination_url: created.destination_url.clone(),
                disabled: false,
                deleted: false,
            });
            return faults;
        }
        // A gap is already reported as `Fault::Version`.
        if (before.version, version) == (0, 1) {
            faults.push(Fault::NotCreated);
        }
        let Some(after) = after else {
            faults.push(Fault::MetadataLacksState);
            return faults;
        };
        let is_sound = undone(event, after)
            .is_some_and(|expected| before.state == UNKNOWN || before.state == hash(&expected));
        if !is_sound {
            faults.push(Fault::StateDoesNotFollow);
        }
        link.state = hash(after);
        faults
    }
}

/// Returns the state before the event that leads to the state `after`; `None` if the event can't
/// lead to `after`.
fn undone(event: &LinkEvent, after: &LinkState) -> Option<LinkState> {
    // No event follows a deletion, so the link was not deleted before.
    let before = LinkState {
        deleted: false,
        ..after.clone()
    };
    match event {
        LinkEvent::Created(_) => None,
        LinkEvent::DestinationChanged(changed) => {
            let is_so = !after.deleted && after.destination_url == changed.destination_url;
            is_so.then(|| LinkState {
                destination_url: changed.previous_destination_url.clone(),
                ..before
            })
        }
        LinkEvent::Deleted(_) => after.deleted.then_some(before),
        LinkEvent::Disabled(_) => (!after.deleted && after.disabled).then_some(LinkState {
            disabled: false,
            ..before
        }),
        LinkEvent::Enabled(_) => (!after.deleted && !after.disabled).then_some(LinkState {
            disabled: true,
            ..before
        }),
    }
}

impl StateHash {
    fn of(keys: &RandomState, account_id: AccountId, state: &LinkState) -> Self {
        let LinkState {
            destination_url,
            disabled,
            deleted,
        } = state;
        let hash = keys.hash_one((account_id, destination_url, disabled, deleted));
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is one")]
        Self((hash as u32).max(1))
    }
}

/// Hasher for keys that are hashes already.
#[derive(Debug, Default)]
struct IsHash(u64);

impl Hasher for IsHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
