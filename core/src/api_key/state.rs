//! An API key, derived from its events, and the decisions about it.

use time::OffsetDateTime;

use super::{
    ApiKeyChanged, ApiKeyChanges, ApiKeyEvent, ApiKeyIssued, ApiKeyRevoked, ApiKeyRotated,
};
use crate::{
    change::{Change, ValueChange, ValueUpdate},
    id::{AccountId, KeyId},
    link::Expiry,
};

/// An API key as its events describe it: its row without hash and prefix of the secret, and without the last use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyState {
    /// Account that the key acts for.
    pub account_id: AccountId,
    /// Public id of the key.
    pub key_id: KeyId,
    /// Name of the key.
    pub name: String,
    /// Names of its permissions, those of later releases included.
    pub scopes: Vec<String>,
    /// Time at which the key was issued.
    pub created_at: OffsetDateTime,
    /// Expiry: the key is refused from this time on.
    pub expires_at: Option<OffsetDateTime>,
    /// Revocation, by the database's clock: the key is refused from this time on. In the future while a rotation
    /// overlaps.
    pub revoked_at: Option<OffsetDateTime>,
}

/// Requested change of an API key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyChangeRequest {
    /// New name; `None` keeps the name.
    pub name: Option<String>,
    /// New permissions, which replace all; `None` keeps them.
    pub scopes: Option<Vec<String>>,
    /// New expiry.
    pub expires_at: ValueUpdate<Expiry>,
}

impl KeyState {
    /// Returns a key that was issued at the given time.
    pub fn new(issued: &ApiKeyIssued, created_at: OffsetDateTime) -> Self {
        Self {
            account_id: issued.account_id,
            key_id: issued.key_id,
            name: issued.name.clone(),
            scopes: issued.scopes.clone(),
            created_at,
            expires_at: issued.expires_at.map(Expiry::instant),
            revoked_at: None,
        }
    }

    /// Returns true if the key was revoked at `now`, by the database's clock.
    pub fn is_revoked(&self, now: OffsetDateTime) -> bool {
        self.revoked_at.is_some_and(|at| at <= now)
    }

    /// Decides to change name, permissions or expiry. Returns `None` if nothing changes; another order of the
    /// same permissions is no change.
    pub fn decide_change(&self, wanted: &KeyChangeRequest) -> Option<ApiKeyChanged> {
        let name = wanted.name.as_ref().unwrap_or(&self.name);
        let scopes = wanted.scopes.as_ref();
        let scopes = scopes.filter(|scopes| !is_same_set(scopes, &self.scopes));
        let before = self.expires_at.map(Expiry::at);
        let after = wanted.expires_at.apply_to(before);
        let changes = ApiKeyChanges {
            name: Change::between(&self.name, name),
            scopes: scopes.and_then(|scopes| Change::between(&self.scopes, scopes)),
            expires_at: ValueChange::between(before.as_ref(), after.as_ref()),
        };
        (changes != ApiKeyChanges::default()).then_some(ApiKeyChanged {
            account_id: self.account_id,
            key_id: self.key_id,
            changes,
        })
    }

    /// Decides to replace the key by one with the same name, permissions and expiry. The key is refused from
    /// `overlap_until` on, or from an earlier revocation.
    pub fn decide_rotate(
        &self,
        new_key_id: KeyId,
        overlap_until: OffsetDateTime,
    ) -> (ApiKeyIssued, ApiKeyRotated) {
        let issued = ApiKeyIssued {
            account_id: self.account_id,
            key_id: new_key_id,
            name: self.name.clone(),
            scopes: self.scopes.clone(),
            expires_at: self.expires_at.map(Expiry::at),
        };
        let rotated = ApiKeyRotated {
            account_id: self.account_id,
            key_id: self.key_id,
            new_key_id,
            overlap_until: self
                .revoked_at
                .map_or(overlap_until, |at| at.min(overlap_until)),
        };
        (issued, rotated)
    }

    /// Decides to revoke the key at `now`, by the database's clock. Returns `None` if it is revoked by then.
    pub fn decide_revoke(&self, now: OffsetDateTime) -> Option<ApiKeyRevoked> {
        (!self.is_revoked(now)).then_some(ApiKeyRevoked {
            account_id: self.account_id,
            key_id: self.key_id,
            revoked_at: now,
        })
    }

    /// Returns the key after one more of its events. Never fails: an event is a fact.
    #[must_use]
    pub fn apply(mut self, event: &ApiKeyEvent) -> Self {
        match event {
            // Unreachable: a key is issued once. A second time would reset the key.
            ApiKeyEvent::Issued(issued) => return Self::new(issued, self.created_at),
            ApiKeyEvent::Changed(changed) => {
                let of = &changed.changes;
                if let Some(name) = &of.name {
                    self.name.clone_from(&name.to);
                }
                if let Some(scopes) = &of.scopes {
                    self.scopes.clone_from(&scopes.to);
                }
                if let Some(expires_at) = &of.expires_at {
                    self.expires_at = expires_at.to.map(Expiry::instant);
                }
            }
            ApiKeyEvent::Rotated(rotated) => {
                self.revoked_at = Some(rotated.overlap_until);
            }
            ApiKeyEvent::Revoked(revoked) => self.revoked_at = Some(revoked.revoked_at),
        }
        self
    }
}

fn is_same_set(some: &[String], others: &[String]) -> bool {
    let are_in = |some: &[String], others: &[String]| some.iter().all(|it| others.contains(it));
    are_in(some, others) && are_in(others, some)
}
