//! API keys of a shard's accounts during a check: as the events tell them, compared with their table at the head at
//! which the table was read. A key takes about 300 bytes: texts are kept as hashes.

use std::collections::HashMap;

use linkledger_core::{
    api_key::{ApiKeyChanged, ApiKeyEvent, ApiKeyIssued, ApiKeyRotated, KeyState},
    id::{AccountId, KeyId},
    link::Expiry,
    shard::Position,
};
use linkledger_event_store::log::stored::StoredEvent;
use time::OffsetDateTime;

use super::{
    findings::Findings,
    texts::{TextHash, Texts},
};

/// Keys of the checked events, and the rows of their table.
#[derive(Debug)]
pub(super) struct KeyAudit {
    texts: Texts,
    /// Key after its last event, and the position of that event.
    by_id: HashMap<KeyId, (Key, Position)>,
    /// Rows of the table; `None` once they are compared.
    rows: Option<HashMap<KeyId, Key>>,
    /// Head at which the rows were read.
    read_at: Position,
    /// Key that was issued last, and the position of its event: a rotation follows the issue of its key.
    last_issued: Option<(KeyId, Position)>,
    /// True if an event is missing or unreadable: a key without an issue may be of that event.
    is_incomplete: bool,
}

/// Rows of the keys of a shard's accounts, and the head at which they were read.
#[derive(Debug, Default)]
pub(in super::super) struct KeyRows {
    rows: HashMap<KeyId, Key>,
    pub(in super::super) head: Position,
}

/// API key, but for its secret and last use.
#[derive(Debug, Clone, Copy)]
struct Key {
    account_id: AccountId,
    name: TextHash,
    scopes: TextHash,
    created_at: OffsetDateTime,
    expires_at: Option<OffsetDateTime>,
    revoked_at: Option<OffsetDateTime>,
}

impl KeyRows {
    pub(in super::super) fn insert(&mut self, texts: &Texts, key: &KeyState) {
        self.rows.insert(key.key_id, Key::of(texts, key));
    }
}

impl KeyAudit {
    pub(super) fn new(read: KeyRows, texts: Texts) -> Self {
        Self {
            texts,
            by_id: HashMap::new(),
            rows: Some(read.rows),
            read_at: read.head,
            last_issued: None,
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
        for (key_id, (key, position)) in &self.by_id {
            let what = match rows.remove(key_id) {
                None => Some("it has no row in api_keys".to_owned()),
                Some(row) => row.difference(key).map(|member| {
                    format!("its row in api_keys is not what its events come to: {member}")
                }),
            };
            if let Some(what) = what {
                findings.add(Some(*position), format!("{key_id}: {what}"));
            }
        }
        let unexplained = rows.into_keys().filter(|_| !self.is_incomplete);
        for key_id in unexplained {
            let uuid = key_id.uuid();
            let what =
                format!("{key_id} has a row in api_keys (key_id {uuid}) that no event explains");
            findings.add(None, what);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Applies an event of a key.
    pub(super) fn apply(
        &mut self,
        stored: &StoredEvent<'_>,
        event: &ApiKeyEvent,
        findings: &mut Findings,
    ) {
        let key_id = event.key_id();
        for what in self.faults_of(stored, event) {
            findings.add(Some(stored.position), format!("{key_id}: {what}"));
        }
    }

    fn faults_of(&mut self, stored: &StoredEvent<'_>, event: &ApiKeyEvent) -> Vec<String> {
        let (key_id, position) = (event.key_id(), stored.position);
        if let ApiKeyEvent::Issued(issued) = event {
            return self.issue(stored, issued).into_iter().collect();
        }
        let mut faults = Vec::new();
        if let ApiKeyEvent::Rotated(rotated) = event {
            faults.extend(self.wrong_pair(position, rotated));
        }
        let Some((key, last)) = self.by_id.get_mut(&key_id) else {
            if !self.is_incomplete {
                faults.push("it was never issued".to_owned());
            }
            return faults;
        };
        *last = position;
        if key.account_id != stored.account_id {
            faults.push(format!("it is a key of {}", key.account_id));
        }
        match event {
            ApiKeyEvent::Issued(_) => {}
            ApiKeyEvent::Changed(changed) => faults.extend(key.change(&self.texts, changed)),
            ApiKeyEvent::Rotated(rotated) => faults.extend(key.revoke(rotated.overlap_until)),
            ApiKeyEvent::Revoked(revoked) => faults.extend(key.revoke(revoked.revoked_at)),
        }
        faults
    }

    fn issue(&mut self, stored: &StoredEvent<'_>, issued: &ApiKeyIssued) -> Option<String> {
        let key = KeyState::new(issued, stored.recorded_at);
        let key = (Key::of(&self.texts, &key), stored.position);
        self.last_issued = Some((issued.key_id, stored.position));
        let before = self.by_id.insert(issued.key_id, key);
        before.map(|_| "it was issued before".to_owned())
    }

    fn wrong_pair(&self, position: Position, rotated: &ApiKeyRotated) -> Option<String> {
        let expected = (rotated.new_key_id, position - 1);
        if self.last_issued == Some(expected) || self.is_incomplete {
            return None;
        }
        let new = rotated.new_key_id;
        Some(format!(
            "the ApiKeyIssued of {new} should stand right before this ApiKeyRotated"
        ))
    }
}

impl Key {
    fn of(texts: &Texts, key: &KeyState) -> Self {
        Self {
            account_id: key.account_id,
            name: texts.hash(key.name.as_str()),
            scopes: texts.hash(key.scopes.as_slice()),
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
        }
    }

    /// Applies a change, and returns a finding if the event replaces another value.
    fn change(&mut self, texts: &Texts, changed: &ApiKeyChanged) -> Option<String> {
        let of = &changed.changes;
        let mut wrong = None;
        let mut replace = |member: &mut TextHash, (from, to), name: &str| {
            if *member != from {
                wrong = Some(format!(
                    "it changes another {name} than the key had before it"
                ));
            }
            *member = to;
        };
        if let Some(name) = &of.name {
            let hashes = (texts.hash(name.from.as_str()), texts.hash(name.to.as_str()));
            replace(&mut self.name, hashes, "name");
        }
        if let Some(scopes) = &of.scopes {
            let hashes = (
                texts.hash(scopes.from.as_slice()),
                texts.hash(scopes.to.as_slice()),
            );
            replace(&mut self.scopes, hashes, "list of scopes");
        }
        if let Some(expires_at) = &of.expires_at {
            let [from, to] = [expires_at.from, expires_at.to].map(|at| at.map(Expiry::instant));
            if self.expires_at != from {
                wrong = Some("it changes another expiry than the key had before it".to_owned());
            }
            self.expires_at = to;
        }
        wrong
    }

    /// Revokes the key, and returns a finding if it was to be refused earlier.
    fn revoke(&mut self, at: OffsetDateTime) -> Option<String> {
        let before = self.revoked_at.replace(at);
        let is_later = before.is_some_and(|before| before < at);
        is_later.then(|| "it was revoked for an earlier time before".to_owned())
    }

    /// Returns the first member that differs.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        let members = [
            (self.account_id == other.account_id, "account"),
            (self.name == other.name, "name"),
            (self.scopes == other.scopes, "scopes"),
            (self.created_at == other.created_at, "time of issue"),
            (self.expires_at == other.expires_at, "expiry"),
            (self.revoked_at == other.revoked_at, "revocation"),
        ];
        let different = members.iter().find(|(is_same, _)| !is_same);
        different.map(|(_, member)| *member)
    }
}
