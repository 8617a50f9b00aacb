//! All that an account is but its credits, in the same memory whatever its name.

use linkledger_core::account::{
    Account, AccountAfter, AccountChanged, AccountEvent, AccountStatus,
};
use time::OffsetDateTime;

use super::super::texts::{TextHash, Texts};

/// Account without its credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Profile {
    name: TextHash,
    external_id: TextHash,
    low_balance_at: TextHash,
    status: AccountStatus,
    created_at: OffsetDateTime,
}

impl Profile {
    pub(super) fn of(texts: &Texts, account: &Account) -> Self {
        Self {
            name: texts.hash(account.name.as_str()),
            external_id: texts.hash(account.external_id.as_deref()),
            low_balance_at: texts.hash(account.low_balance_at),
            status: account.status,
            created_at: account.created_at,
        }
    }

    pub(super) fn of_after(texts: &Texts, after: &AccountAfter) -> Self {
        Self {
            name: texts.hash(after.name.as_str()),
            external_id: texts.hash(after.external_id.as_deref()),
            low_balance_at: texts.hash(after.low_balance_at),
            status: after.status,
            created_at: after.created_at,
        }
    }

    /// Applies an event that is not the creation, and returns a finding if the event replaces another value.
    pub(super) fn apply(&mut self, texts: &Texts, event: &AccountEvent) -> Option<String> {
        let wrong = match event {
            AccountEvent::Changed(changed) => self.change(texts, changed),
            AccountEvent::Created(_) | AccountEvent::Suspended(_) | AccountEvent::Resumed(_) => {
                None
            }
        };
        self.status = self.status.apply(event);
        wrong
    }

    fn change(&mut self, texts: &Texts, changed: &AccountChanged) -> Option<String> {
        let mut wrong = None;
        let mut replace = |member: &mut TextHash, (from, to), name: &str| {
            if *member != from {
                wrong = Some(format!(
                    "it changes another {name} than the account had before it"
                ));
            }
            *member = to;
        };
        if let Some(name) = &changed.changes.name {
            let hashes = (texts.hash(name.from.as_str()), texts.hash(name.to.as_str()));
            replace(&mut self.name, hashes, "name");
        }
        if let Some(id) = &changed.changes.external_id {
            let hashes = (texts.hash(id.from.as_deref()), texts.hash(id.to.as_deref()));
            replace(&mut self.external_id, hashes, "external id");
        }
        if let Some(change) = &changed.changes.low_balance_at {
            let hashes = (texts.hash(change.from), texts.hash(change.to));
            replace(&mut self.low_balance_at, hashes, "low_balance_at");
        }
        wrong
    }

    /// Returns the first member that differs: its name, and both values unless they are texts.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        if self.name != other.name {
            return Some("name".to_owned());
        }
        if self.external_id != other.external_id {
            return Some("external id".to_owned());
        }
        if self.low_balance_at != other.low_balance_at {
            return Some("low_balance_at".to_owned());
        }
        if self.created_at != other.created_at {
            return Some("time of creation".to_owned());
        }
        let is_same = self.status == other.status;
        (!is_same).then(|| format!("status, {:?} instead of {:?}", self.status, other.status))
    }
}
