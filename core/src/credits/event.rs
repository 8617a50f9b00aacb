//! Events of an account's credits.

use serde::{Deserialize, Serialize};

use crate::id::{AccountId, KeyId, LinkId};

/// An event of an account's stream that concerns credits. The projection `credits` must match every
/// variant without a wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreditsEvent {
    /// An operator added credits.
    Granted(CreditsGranted),
    /// An operator corrected the balance.
    Adjusted(CreditsAdjusted),
    /// A create charged its price.
    Charged(CreditsCharged),
}

/// An operator added credits to an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CreditsGranted {
    /// Account that received the credits.
    pub account_id: AccountId,
    /// Number of credits added.
    #[schemars(range(min = 1))]
    pub amount: i64,
    /// Balance after the event, in credits; never negative.
    #[schemars(range(min = 0))]
    pub balance_after: i64,
    /// Reason given by the operator.
    #[schemars(length(min = 1, max = 200))]
    pub reason: String,
}

/// An operator corrected the balance of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CreditsAdjusted {
    /// Account whose balance was corrected.
    pub account_id: AccountId,
    /// Number of credits added, or removed if negative; never 0.
    pub amount: i64,
    /// Balance after the event, in credits; never negative.
    #[schemars(range(min = 0))]
    pub balance_after: i64,
    /// Reason given by the operator.
    #[schemars(length(min = 1, max = 200))]
    pub reason: String,
}

/// Credits were charged to an account for a link.
///
/// The `LinkCreated` of the paid link has the position right before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CreditsCharged {
    /// Account that paid.
    pub account_id: AccountId,
    /// Number of credits charged; 0 if links are free.
    #[schemars(range(min = 0))]
    pub amount: i64,
    /// Balance after the event, in credits; never negative.
    #[schemars(range(min = 0))]
    pub balance_after: i64,
    /// The link that was paid for.
    pub link_id: LinkId,
    /// API key of the request that created the link. Tells what each key costs.
    pub key_id: KeyId,
    /// Reason for the charge.
    pub reason: ChargeReason,
}

/// Reason for a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ChargeReason {
    /// A link was created.
    LinkCreated,
}

impl CreditsEvent {
    /// Returns the balance after the event, in credits.
    pub const fn balance_after(&self) -> i64 {
        match self {
            Self::Granted(event) => event.balance_after,
            Self::Adjusted(event) => event.balance_after,
            Self::Charged(event) => event.balance_after,
        }
    }
}
