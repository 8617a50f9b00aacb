//! External ids during a check: as the events give them, compared with their table at the head at
//! which the table was read.
//!
//! The check keeps hashes of accounts and external ids, with random keys: a fault is missed once in
//! billions of cases.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher as _,
};

use linkledger_core::{
    id::{AccountId, LinkId},
    link::{LinkEvent, LinkState},
    shard::Position,
};
use linkledger_event_store::{
    external_ids::{ExternalIdEffect, ExternalIdsAtHead},
    log::stored::StoredEvent,
};

use super::findings::Findings;

/// External ids of the checked events, and the rows of their table.
#[derive(Debug)]
pub(super) struct ExternalIdAudit {
    keys: RandomState,
    /// Link that holds each external id, and position of the event that gave the external id.
    held: HashMap<u64, (LinkId, Position)>,
    /// Key in `held` of each link that holds an external id.
    keys_of_links: HashMap<LinkId, u64>,
    /// Rows of the table; `None` once they are compared.
    rows: Option<HashMap<u64, LinkId>>,
    /// Head at which the rows were read.
    read_at: Position,
    /// True if an event is missing or unreadable: a row without an event may be of that event.
    is_incomplete: bool,
}

impl ExternalIdAudit {
    pub(super) fn new(read: ExternalIdsAtHead) -> Self {
        let keys = RandomState::new();
        let rows = read.rows.into_iter();
        let rows = rows.map(|(key, link_id)| (hash(&keys, key.0, &key.1), link_id));
        Self {
            rows: Some(rows.collect()),
            keys,
            held: HashMap::new(),
            keys_of_links: HashMap::new(),
            read_at: read.head,
            is_incomplete: false,
        }
    }

    /// Records that an event is missing or unreadable.
    pub(super) fn note_gap(&mut self) {
        self.is_incomplete = true;
    }

    /// Compares the rows, if they were read before the event at this position.
    pub(super) fn compare_before(&mut self, position: Position, findings: &mut Findings) {
        if position <= self.read_at {
            return;
        }
        let Some(mut rows) = self.rows.take() else {
            return;
        };
        for (key, (link_id, position)) in &self.held {
            if rows.remove(key) != Some(*link_id) {
                let what = format!("the external id of {link_id} is not given to the link");
                findings.add(Some(*position), what);
            }
        }
        let unexplained = rows.into_values().filter(|_| !self.is_incomplete);
        for link_id in unexplained {
            let uuid = link_id.uuid();
            let what = format!(
                "{link_id} has a row in external_ids (link_id {uuid}) that no event explains"
            );
            findings.add(None, what);
        }
    }

    /// Applies an event of a link; `after` is the state of the link after the event.
    pub(super) fn apply(
        &mut self,
        stored: &StoredEvent<'_>,
        event: &LinkEvent,
        after: Option<&LinkState>,
        findings: &mut Findings,
    ) {
        let effect = ExternalIdEffect::of(event, after);
        // A state that can't be read does not name the external id that a deletion frees.
        if effect.freed.is_some() || matches!(event, LinkEvent::Deleted(_)) {
            let key = self.keys_of_links.remove(&event.link_id());
            key.and_then(|key| self.held.remove(&key));
        }
        let Some(given) = effect.given else { return };
        let link_id = event.link_id();
        let key = hash(&self.keys, stored.account_id, given);
        self.keys_of_links.insert(link_id, key);
        if let Some((other, _)) = self.held.insert(key, (link_id, stored.position))
            && other != link_id
        {
            let what = format!("{link_id} gets the external id that {other} has");
            findings.add(Some(stored.position), what);
        }
    }
}

fn hash(keys: &RandomState, account_id: AccountId, external_id: &str) -> u64 {
    keys.hash_one((account_id, external_id))
}
