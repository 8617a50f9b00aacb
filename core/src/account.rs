//! The account aggregate: active, or suspended by an operator.

use serde::{Deserialize, Serialize};

use crate::id::AccountId;

/// Status of an account: decides if the account may call the API and if its links redirect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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

/// An event of an account's stream that does not concern credits. Projections must match every
/// variant without a wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountEvent {
    /// An operator suspended the account, or changed `stop_redirects` of a suspended account.
    Suspended(AccountSuspended),
    /// An operator resumed the account.
    Resumed(AccountResumed),
}

/// An operator suspended the account, or changed `stop_redirects` of a suspended account.
///
/// From this event on, the API refuses the account's calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AccountSuspended {
    /// The account.
    pub account_id: AccountId,
    /// Reason given by the operator.
    #[schemars(length(min = 1, max = 200))]
    pub reason: String,
    /// True if the account's links stop redirecting from this event on: visitors receive 410 Gone.
    pub stop_redirects: bool,
}

/// An operator resumed the account: the API accepts the account's calls again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AccountResumed {
    /// The account.
    pub account_id: AccountId,
    /// Reason given by the operator.
    #[schemars(length(min = 1, max = 200))]
    pub reason: String,
    /// Always false: the account's links redirect again.
    pub stop_redirects: bool,
}

impl AccountStatus {
    /// Decides the suspension of an account.
    ///
    /// Returns `None` if the account is already suspended with the same `stop_redirects`.
    pub fn decide_suspend(
        self,
        account_id: AccountId,
        reason: &str,
        stop_redirects: bool,
    ) -> Option<AccountSuspended> {
        (self != Self::Suspended { stop_redirects }).then(|| AccountSuspended {
            account_id,
            reason: reason.to_owned(),
            stop_redirects,
        })
    }

    /// Decides the resumption of an account. Returns `None` if the account is already active.
    pub fn decide_resume(self, account_id: AccountId, reason: &str) -> Option<AccountResumed> {
        (self != Self::Active).then(|| AccountResumed {
            account_id,
            reason: reason.to_owned(),
            stop_redirects: false,
        })
    }

    /// Returns the state after one more event. Never fails: an event is a fact.
    #[must_use]
    pub const fn apply(self, event: &AccountEvent) -> Self {
        match event {
            AccountEvent::Suspended(suspended) => Self::Suspended {
                stop_redirects: suspended.stop_redirects,
            },
            AccountEvent::Resumed(_) => Self::Active,
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(7));

    fn suspend(status: AccountStatus, stop_redirects: bool) -> Option<AccountStatus> {
        let event = status.decide_suspend(ACCOUNT, "abuse", stop_redirects)?;
        Some(status.apply(&AccountEvent::Suspended(event)))
    }

    fn resume(status: AccountStatus) -> Option<AccountStatus> {
        let event = status.decide_resume(ACCOUNT, "appeal")?;
        Some(status.apply(&AccountEvent::Resumed(event)))
    }

    #[test]
    fn suspend_changes_status_or_returns_none() {
        let [soft, hard] =
            [false, true].map(|stop_redirects| AccountStatus::Suspended { stop_redirects });
        for (given, stop_redirects, then) in [
            (AccountStatus::Active, false, Some(soft)),
            (AccountStatus::Active, true, Some(hard)),
            (soft, true, Some(hard)),
            (hard, false, Some(soft)),
            (soft, false, None),
            (hard, true, None),
        ] {
            assert_eq!(suspend(given, stop_redirects), then, "{given:?}");
        }
    }

    #[test]
    fn resume_activates_suspended_accounts_only() {
        for stop_redirects in [false, true] {
            let suspended = AccountStatus::Suspended { stop_redirects };
            assert_eq!(resume(suspended), Some(AccountStatus::Active));
        }
        assert_eq!(resume(AccountStatus::Active), None);
    }
}
