//! Refunds and revocations during a check: each names an earlier entry of its account, once. Only the entries that
//! they name are kept, about 150 bytes each.

use std::collections::HashMap;

use linkledger_core::{
    credits::{CreditsEvent, CreditsRefunded, CreditsRevoked},
    id::{AccountId, EntryId, LinkId},
    shard::Position,
};
use linkledger_event_store::log::stored::StoredEvent;

/// Entries that refunds and revocations name.
#[derive(Debug)]
pub(super) struct Reversals {
    /// Entries by their id; `None` before the event of the entry.
    entries: HashMap<EntryId, Option<Entry>>,
    /// True if an event is missing or unreadable: it may be that of an entry.
    is_incomplete: bool,
}

#[derive(Debug)]
struct Entry {
    account_id: AccountId,
    kind: EntryKind,
    amount: i64,
    /// Position of the event that has reversed the entry.
    reversed_at: Option<Position>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    Grant,
    Charge(LinkId),
}

impl Reversals {
    pub(super) fn new(entries: Vec<EntryId>) -> Self {
        Self {
            entries: entries.into_iter().map(|entry| (entry, None)).collect(),
            is_incomplete: false,
        }
    }

    /// Records that an event is missing or unreadable.
    pub(super) fn note_gap(&mut self) {
        self.is_incomplete = true;
    }

    /// Applies an event of an account's credits, and returns a finding.
    pub(super) fn apply(
        &mut self,
        stored: &StoredEvent<'_>,
        event: &CreditsEvent,
    ) -> Option<String> {
        match event {
            CreditsEvent::Granted(granted) => self.keep(stored, EntryKind::Grant, granted.amount),
            CreditsEvent::Charged(charged) => {
                self.keep(stored, EntryKind::Charge(charged.link_id), charged.amount);
            }
            CreditsEvent::Adjusted(_) => {}
            CreditsEvent::Refunded(refunded) => return self.refund(stored, refunded),
            CreditsEvent::Revoked(revoked) => return self.revoke(stored, revoked),
        }
        None
    }

    fn keep(&mut self, stored: &StoredEvent<'_>, kind: EntryKind, amount: i64) {
        let entry_id = EntryId::from_uuid(stored.event_id.uuid());
        if let Some(entry) = self.entries.get_mut(&entry_id) {
            *entry = Some(Entry {
                account_id: stored.account_id,
                kind,
                amount,
                reversed_at: None,
            });
        }
    }

    fn refund(&mut self, stored: &StoredEvent<'_>, refunded: &CreditsRefunded) -> Option<String> {
        let (entry_id, link_id) = (refunded.refunds, refunded.link_id);
        let Some(charge) = self.entry_of(stored, entry_id, EntryKind::is_charge) else {
            return self.unknown("gives back", entry_id, "charge");
        };
        let (kind, amount) = (charge.kind, charge.amount);
        if let Some(position) = charge.reversed_at.replace(stored.position) {
            return Some(format!(
                "it gives back {entry_id}, which was given back before, at position {position}"
            ));
        }
        let is_so = kind == EntryKind::Charge(link_id) && amount == refunded.amount;
        (!is_so).then(|| {
            let has = refunded.amount;
            format!("it gives back {has} credits for {link_id}, but {entry_id} is {amount} {kind}")
        })
    }

    fn revoke(&mut self, stored: &StoredEvent<'_>, revoked: &CreditsRevoked) -> Option<String> {
        let entry_id = revoked.grant;
        let (asked, taken, short) = (revoked.asked, revoked.amount, revoked.short);
        if taken < 0 || short < 0 || taken.checked_add(short) != Some(asked) {
            return Some(format!(
                "it asks for {asked} credits, takes {taken} and is {short} short"
            ));
        }
        if short > 0 && revoked.balance_after != 0 {
            let left = revoked.balance_after;
            return Some(format!("it is {short} credits short, but leaves {left}"));
        }
        let Some(grant) = self.entry_of(stored, entry_id, EntryKind::is_grant) else {
            return self.unknown("takes back", entry_id, "grant");
        };
        let amount = grant.amount;
        if let Some(position) = grant.reversed_at.replace(stored.position) {
            return Some(format!(
                "it takes back {entry_id}, which was taken back before, at position {position}"
            ));
        }
        (amount != asked)
            .then(|| format!("it asks for {asked} credits, but {entry_id} granted {amount}"))
    }

    /// Returns an earlier entry of the account, of the wanted kind.
    fn entry_of(
        &mut self,
        stored: &StoredEvent<'_>,
        entry_id: EntryId,
        is_wanted: fn(EntryKind) -> bool,
    ) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(&entry_id)?.as_mut();
        entry.filter(|entry| entry.account_id == stored.account_id && is_wanted(entry.kind))
    }

    /// Returns the finding for an entry that is none of the account, unless the entry's event may be missing.
    fn unknown(&self, verb: &str, entry_id: EntryId, kind: &str) -> Option<String> {
        (!self.is_incomplete)
            .then(|| format!("it {verb} {entry_id}, which is no earlier {kind} of the account"))
    }
}

impl EntryKind {
    const fn is_charge(self) -> bool {
        matches!(self, Self::Charge(_))
    }

    const fn is_grant(self) -> bool {
        matches!(self, Self::Grant)
    }
}

impl std::fmt::Display for EntryKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Grant => f.write_str("granted"),
            Self::Charge(link_id) => write!(f, "for {link_id}"),
        }
    }
}
