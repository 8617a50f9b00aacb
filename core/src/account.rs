//! The account aggregate: in service, or suspended by an operator (contract §8).

use serde::{Deserialize, Serialize};

use crate::id::AccountId;

/// Whether an account may call the API, and whether its links may be followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AccountStatus {
    /// It may, and they may.
    #[default]
    Active,
    /// It may not.
    Suspended {
        /// They may not either.
        stop_redirects: bool,
    },
}

/// An event of an account's stream that is not about credits. No projection may match it with a
/// wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountEvent {
    /// An operator suspended it, or changed whether its links may be followed meanwhile.
    Suspended(AccountSuspended),
    /// An operator put it back into service.
    Resumed(AccountResumed),
}

/// An operator suspended the account, or changed whether its links may be followed meanwhile.
///
/// The API refuses the account's calls from here on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccountSuspended {
    /// The account.
    pub account_id: AccountId,
    /// Why, in the operator's words.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 200)))]
    pub reason: String,
    /// Whether its links are not followed from here on: visitors are answered 410 Gone.
    pub stop_redirects: bool,
}

/// An operator put the account back into service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccountResumed {
    /// The account.
    pub account_id: AccountId,
    /// Why, in the operator's words.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 200)))]
    pub reason: String,
    /// Whether its links are not followed from here on: always false.
    pub stop_redirects: bool,
}

impl AccountEvent {
    /// The account that it happened to.
    pub const fn account_id(&self) -> AccountId {
        match self {
            Self::Suspended(event) => event.account_id,
            Self::Resumed(event) => event.account_id,
        }
    }
}

/// `None`: it is so already, and nothing happens.
impl AccountStatus {
    /// What an operator's word to suspend the account leads to.
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

    /// What an operator's word to put it back into service leads to.
    pub fn decide_resume(self, account_id: AccountId, reason: &str) -> Option<AccountResumed> {
        (self != Self::Active).then(|| AccountResumed {
            account_id,
            reason: reason.to_owned(),
            stop_redirects: false,
        })
    }

    /// The state after one more event. Total: an event is a fact and is never refused.
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
    fn given_each_status_when_suspended_then_it_is_so_or_nothing_happens() {
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
    fn given_each_status_when_resumed_then_it_is_active_or_nothing_happens() {
        for stop_redirects in [false, true] {
            let suspended = AccountStatus::Suspended { stop_redirects };
            assert_eq!(resume(suspended), Some(AccountStatus::Active));
        }
        assert_eq!(resume(AccountStatus::Active), None);
    }
}
