//! An account, derived from the events of its stream, and the decisions about it.

use time::OffsetDateTime;

use super::{
    AccountAfter, AccountChanged, AccountChanges, AccountCreated, AccountEvent, AccountResumed,
    AccountState, AccountSuspended,
};
use crate::{
    change::{Change, ValueChange, ValueUpdate},
    credits::LowBalanceAt,
    id::AccountId,
};

/// Status of an account: decides if the account may call the API and if its links redirect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum AccountStatus {
    /// API calls are accepted, and links redirect.
    #[default]
    Active,
    /// API calls are refused with 403.
    Suspended {
        /// True if the account's links stop redirecting: visitors receive 410 Gone.
        stop_redirects: bool,
    },
}

/// An account, without its credits and API keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Id of the account.
    pub account_id: AccountId,
    /// Name, for people.
    pub name: String,
    /// Id of the account in the seller's system, unique in the service.
    pub external_id: Option<String>,
    /// Thresholds of the balance.
    pub low_balance_at: LowBalanceAt,
    /// Status of the account.
    pub status: AccountStatus,
    /// Time of the creation.
    pub created_at: OffsetDateTime,
}

/// Requested change of an account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountChangeRequest {
    /// New name; `None` keeps the name.
    pub name: Option<String>,
    /// New external id.
    pub external_id: ValueUpdate<String>,
    /// New thresholds of the balance; `None` keeps the thresholds.
    pub low_balance_at: Option<LowBalanceAt>,
}

impl AccountStatus {
    /// Returns the status of a state; an active account's links redirect.
    pub const fn of(state: AccountState, redirects_stopped: bool) -> Self {
        match state {
            AccountState::Active => Self::Active,
            AccountState::Suspended => Self::Suspended {
                stop_redirects: redirects_stopped,
            },
        }
    }

    /// Returns the state, by whose name answers and the database know the status.
    pub const fn state(self) -> AccountState {
        match self {
            Self::Active => AccountState::Active,
            Self::Suspended { .. } => AccountState::Suspended,
        }
    }

    /// Returns true if the account's links do not redirect.
    pub const fn redirects_stopped(self) -> bool {
        matches!(
            self,
            Self::Suspended {
                stop_redirects: true
            }
        )
    }

    /// Returns the status after one more event. Never fails: an event is a fact.
    #[must_use]
    pub const fn apply(self, event: &AccountEvent) -> Self {
        match event {
            AccountEvent::Suspended(suspended) => Self::Suspended {
                stop_redirects: suspended.stop_redirects,
            },
            AccountEvent::Created(_) | AccountEvent::Resumed(_) => Self::Active,
            AccountEvent::Changed(_) => self,
        }
    }
}

impl Account {
    /// Returns an account right after its creation at the given time.
    pub fn new(created: &AccountCreated, created_at: OffsetDateTime) -> Self {
        Self {
            account_id: created.account_id,
            name: created.name.clone(),
            external_id: created.external_id.clone(),
            low_balance_at: created.low_balance_at,
            status: AccountStatus::Active,
            created_at,
        }
    }

    /// Decides to change the name, the external id or the thresholds. Returns `None` if nothing changes.
    pub fn decide_change(&self, wanted: &AccountChangeRequest) -> Option<AccountChanged> {
        let name = wanted.name.as_ref().unwrap_or(&self.name);
        let external_id = wanted.external_id.clone();
        let external_id = external_id.apply_to(self.external_id.clone());
        let low_balance_at = wanted.low_balance_at.unwrap_or(self.low_balance_at);
        let changes = AccountChanges {
            name: Change::between(&self.name, name),
            external_id: ValueChange::between(self.external_id.as_ref(), external_id.as_ref()),
            low_balance_at: Change::between(&self.low_balance_at, &low_balance_at),
        };
        (changes != AccountChanges::default()).then_some(AccountChanged {
            account_id: self.account_id,
            changes,
        })
    }

    /// Decides to suspend the account. Returns `None` if it is already suspended with the same `stop_redirects`.
    pub fn decide_suspend(&self, reason: &str, stop_redirects: bool) -> Option<AccountSuspended> {
        let suspended = AccountStatus::Suspended { stop_redirects };
        (self.status != suspended).then(|| AccountSuspended {
            account_id: self.account_id,
            reason: reason.to_owned(),
            stop_redirects,
        })
    }

    /// Decides to resume the account. Returns `None` if it is already active.
    pub fn decide_resume(&self, reason: &str) -> Option<AccountResumed> {
        (self.status != AccountStatus::Active).then(|| AccountResumed {
            account_id: self.account_id,
            reason: reason.to_owned(),
            stop_redirects: false,
        })
    }

    /// Returns the account after one more event. Never fails: an event is a fact.
    #[must_use]
    pub fn apply(mut self, event: &AccountEvent) -> Self {
        match event {
            // Unreachable: a stream has one `AccountCreated`. A second one would reset the account.
            AccountEvent::Created(created) => return Self::new(created, self.created_at),
            AccountEvent::Changed(changed) => {
                if let Some(name) = &changed.changes.name {
                    self.name.clone_from(&name.to);
                }
                if let Some(external_id) = &changed.changes.external_id {
                    self.external_id.clone_from(&external_id.to);
                }
                if let Some(low_balance_at) = &changed.changes.low_balance_at {
                    self.low_balance_at = low_balance_at.to;
                }
            }
            AccountEvent::Suspended(_) | AccountEvent::Resumed(_) => {
                self.status = self.status.apply(event);
            }
        }
        self
    }

    /// Returns the account for the metadata of its event. `balance` is its balance, in credits.
    pub fn after(&self, balance: i64) -> AccountAfter {
        AccountAfter {
            name: self.name.clone(),
            external_id: self.external_id.clone(),
            low_balance_at: self.low_balance_at,
            status: self.status,
            balance,
            created_at: self.created_at,
        }
    }
}
