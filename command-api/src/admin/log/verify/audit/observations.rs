//! Observations during a check: expiries as the events give them, compared with their table at the head at which the
//! table was read; and what observations say of links.
//!
//! The check keeps hashes of expiries, with random keys: a fault is missed once in billions of cases.

use std::{
    collections::{BTreeSet, HashMap, HashSet, hash_map::RandomState},
    hash::BuildHasher as _,
};

use linkledger_core::{
    change::ValueUpdate,
    id::{AccountId, LinkId},
    link::{LinkEvent, LinkState},
    observation::{LINKS_PER_EVENT_MAX, LinkExpired, LinksClicked, ObservationEvent},
    shard::Position,
};
use linkledger_event_store::{
    link_expiries::{ExpiriesAtHead, expiry_update},
    log::stored::StoredEvent,
};
use time::OffsetDateTime;

use super::findings::Findings;

/// Expiries and first clicks of the checked events, and the rows of the expiries.
#[derive(Debug)]
pub(super) struct ObservationAudit {
    keys: RandomState,
    /// Hash of the account and the expiry of each link that has not expired by the events, and position of the event
    /// that set the expiry.
    expiries: HashMap<LinkId, (u64, Position)>,
    /// Rows of the table; `None` once they are compared.
    rows: Option<HashMap<LinkId, u64>>,
    /// Head at which the rows were read.
    read_at: Position,
    first_clicked: HashSet<LinkId>,
    /// True if an event is missing or unreadable: a row without an event may be of that event.
    is_incomplete: bool,
}

impl ObservationAudit {
    pub(super) fn new(read: ExpiriesAtHead) -> Self {
        let keys = RandomState::new();
        let rows = read.rows.into_iter();
        let rows = rows.map(|row| (row.link_id, hash(&keys, row.account_id, row.expires_at)));
        Self {
            rows: Some(rows.collect()),
            keys,
            expiries: HashMap::new(),
            read_at: read.head,
            first_clicked: HashSet::new(),
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
        for (link_id, (expiry, position)) in &self.expiries {
            if rows.remove(link_id) != Some(*expiry) {
                let what = format!("the expiry of {link_id} is not that of its row");
                findings.add(Some(*position), what);
            }
        }
        let unexplained = rows.into_keys().filter(|_| !self.is_incomplete);
        for link_id in unexplained {
            let uuid = link_id.uuid();
            let what = format!(
                "{link_id} has a row in link_expiries (link_id {uuid}) that no event explains"
            );
            findings.add(None, what);
        }
    }

    /// Applies an event of a link; `after` is the state of the link after the event.
    pub(super) fn apply_to_link(
        &mut self,
        stored: &StoredEvent<'_>,
        event: &LinkEvent,
        after: Option<&LinkState>,
    ) {
        match expiry_update(event, after) {
            ValueUpdate::Keep => {}
            ValueUpdate::Remove => {
                self.expiries.remove(&event.link_id());
            }
            ValueUpdate::Set(expires_at) => {
                let expiry = hash(&self.keys, stored.account_id, expires_at);
                let set = (expiry, stored.position);
                self.expiries.insert(event.link_id(), set);
            }
        }
    }

    /// Applies an observation, and returns a finding.
    pub(super) fn apply(
        &mut self,
        stored: &StoredEvent<'_>,
        event: &ObservationEvent,
    ) -> Option<String> {
        match event {
            ObservationEvent::LinkExpired(expired) => self.expire(stored, expired),
            ObservationEvent::LinkFirstClicked(clicked) => {
                let link_id = clicked.link_id;
                let is_first = self.first_clicked.insert(link_id);
                (!is_first).then(|| format!("{link_id} was clicked before"))
            }
            ObservationEvent::LinksClicked(clicked) => fault_of_clicks(clicked).map(str::to_owned),
        }
    }

    fn expire(&mut self, stored: &StoredEvent<'_>, expired: &LinkExpired) -> Option<String> {
        let (link_id, expires_at) = (expired.link_id, expired.expires_at);
        let expiry = hash(&self.keys, stored.account_id, expires_at);
        let set = self.expiries.remove(&link_id);
        // An event that is missing or unreadable may have set another one.
        let is_so = set.is_some_and(|(set, _)| set == expiry) || self.is_incomplete;
        (!is_so).then(|| format!("{link_id} had no such expiry, or had expired before"))
    }
}

/// Returns a finding if the numbers of clicks break a rule.
fn fault_of_clicks(clicked: &LinksClicked) -> Option<&'static str> {
    let links = &clicked.links;
    let different: BTreeSet<LinkId> = links.iter().map(|it| it.link_id).collect();
    let is_whole_minute = clicked.minute.second() == 0 && clicked.minute.nanosecond() == 0;
    let faults = [
        (
            !is_whole_minute,
            "its minute does not begin at a whole minute",
        ),
        (
            links.is_empty() || links.len() > LINKS_PER_EVENT_MAX,
            "it has no links, or too many",
        ),
        (different.len() != links.len(), "it has a link twice"),
        (
            links.iter().any(|it| it.clicks < 0 || it.bots < 0),
            "it has a negative number of clicks",
        ),
    ];
    let fault = faults.iter().find(|(is_so, _)| *is_so);
    fault.map(|(_, what)| *what)
}

fn hash(keys: &RandomState, account_id: AccountId, expires_at: OffsetDateTime) -> u64 {
    keys.hash_one((account_id, expires_at))
}
