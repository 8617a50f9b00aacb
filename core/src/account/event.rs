//! Events of an account itself.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{AccountState, AccountStatus, EXTERNAL_ID_LENGTH_MAX, EXTERNAL_ID_PATTERN};
use crate::{
    change::{Change, ValueChange},
    credits::{LOW_BALANCE_MAX, LowBalanceAt},
    field::TEXT_LENGTH_MAX,
    id::AccountId,
    timestamp,
};

/// An event of an account's stream that concerns neither credits nor API keys nor webhooks. Projections must match
/// every variant without a wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountEvent {
    /// An operator created the account.
    Created(AccountCreated),
    /// An operator changed the account's name, external id or thresholds.
    Changed(AccountChanged),
    /// An operator suspended the account, or changed `stop_redirects` of a suspended account.
    Suspended(AccountSuspended),
    /// An operator resumed the account.
    Resumed(AccountResumed),
}

/// An operator created an account, without credits and API keys.
///
/// The first event of the account's stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AccountCreated {
    /// The account.
    pub account_id: AccountId,
    /// Name of the account, for people.
    #[schemars(length(min = 1, max = TEXT_LENGTH_MAX))]
    pub name: String,
    /// Id of the account in the seller's system, unique in the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = EXTERNAL_ID_LENGTH_MAX), regex(pattern = EXTERNAL_ID_PATTERN))]
    pub external_id: Option<String>,
    /// Balances that a charge records when it crosses one downwards, in credits, the lowest first; absent if there
    /// are none.
    #[serde(default, skip_serializing_if = "LowBalanceAt::is_empty")]
    #[schemars(with = "Vec<i64>", length(max = LOW_BALANCE_MAX), inner(range(min = 1)))]
    pub low_balance_at: LowBalanceAt,
}

/// An operator changed the name, the external id or the thresholds of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AccountChanged {
    /// The account.
    pub account_id: AccountId,
    /// Changed members, at least one, each with its value before and after the change. A member that did not
    /// change is absent.
    pub changes: AccountChanges,
}

/// Changed members of an account; a member that did not change is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct AccountChanges {
    /// Change of the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Change<String>")]
    pub name: Option<Change<String>>,
    /// Change of the id in the seller's system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ValueChange<String>")]
    pub external_id: Option<ValueChange<String>>,
    /// Change of the balances that a charge records when it crosses one downwards; empty if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Change<Vec<i64>>")]
    pub low_balance_at: Option<Change<LowBalanceAt>>,
}

/// An operator suspended the account, or changed `stop_redirects` of a suspended account.
///
/// From this event on, the API refuses the account's calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AccountSuspended {
    /// The account.
    pub account_id: AccountId,
    /// Reason given by the operator.
    #[schemars(length(min = 1, max = TEXT_LENGTH_MAX))]
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
    #[schemars(length(min = 1, max = TEXT_LENGTH_MAX))]
    pub reason: String,
    /// Always false: the account's links redirect again.
    pub stop_redirects: bool,
}

/// An account after one of its events: all that an answer about the account needs.
///
/// Kept in the metadata of each [`AccountEvent`], so that a replay answers as the first request did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredAfter", into = "StoredAfter")]
pub struct AccountAfter {
    /// Name of the account.
    pub name: String,
    /// Id of the account in the seller's system.
    pub external_id: Option<String>,
    /// Thresholds of the balance.
    pub low_balance_at: LowBalanceAt,
    /// Status of the account.
    pub status: AccountStatus,
    /// Balance, in credits.
    pub balance: i64,
    /// Time of the creation.
    pub created_at: OffsetDateTime,
}

/// JSON of [`AccountAfter`], with the members of answers.
#[derive(Serialize, Deserialize)]
struct StoredAfter {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    #[serde(default, skip_serializing_if = "LowBalanceAt::is_empty")]
    low_balance_at: LowBalanceAt,
    state: AccountState,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    redirects_stopped: bool,
    balance: i64,
    #[serde(with = "timestamp")]
    created_at: OffsetDateTime,
}

impl From<AccountAfter> for StoredAfter {
    fn from(after: AccountAfter) -> Self {
        Self {
            name: after.name,
            external_id: after.external_id,
            low_balance_at: after.low_balance_at,
            state: after.status.state(),
            redirects_stopped: after.status.redirects_stopped(),
            balance: after.balance,
            created_at: after.created_at,
        }
    }
}

impl From<StoredAfter> for AccountAfter {
    fn from(stored: StoredAfter) -> Self {
        Self {
            name: stored.name,
            external_id: stored.external_id,
            low_balance_at: stored.low_balance_at,
            status: AccountStatus::of(stored.state, stored.redirects_stopped),
            balance: stored.balance,
            created_at: stored.created_at,
        }
    }
}
