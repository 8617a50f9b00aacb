//! What has happened to the credits of an account.

use serde::{Deserialize, Serialize};

use crate::id::{AccountId, LinkId};

/// A credit event of an account's stream. No projection may match it with a wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreditsEvent {
    /// An operator added credits.
    Granted(CreditsGranted),
    /// An operator corrected the balance.
    Adjusted(CreditsAdjusted),
    /// A call cost credits.
    Charged(CreditsCharged),
}

/// An operator added credits to an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreditsGranted {
    /// Whose credits.
    pub account_id: AccountId,
    /// How many were added.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub amount: i64,
    /// The balance right after it; never negative.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub balance_after: i64,
    /// Why, in the operator's words.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 200)))]
    pub reason: String,
}

/// An operator corrected the balance of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreditsAdjusted {
    /// Whose credits.
    pub account_id: AccountId,
    /// How many were added, or taken if negative; never 0.
    pub amount: i64,
    /// The balance right after it; never negative.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub balance_after: i64,
    /// Why, in the operator's words.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 200)))]
    pub reason: String,
}

/// Credits were taken from an account for a link.
///
/// It stands at the position right after the `LinkCreated` that it pays for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CreditsCharged {
    /// Whose credits.
    pub account_id: AccountId,
    /// How many were taken; 0 where a link costs nothing.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub amount: i64,
    /// The balance right after it; never negative.
    #[cfg_attr(feature = "schema", schemars(range(min = 0)))]
    pub balance_after: i64,
    /// The link that was paid for.
    pub link_id: LinkId,
    /// What the charge is for.
    pub reason: ChargeReason,
}

/// What a charge is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum ChargeReason {
    /// A link was created.
    LinkCreated,
}

impl CreditsEvent {
    /// Whose credits it concerns.
    pub const fn account_id(&self) -> AccountId {
        match self {
            Self::Granted(event) => event.account_id,
            Self::Adjusted(event) => event.account_id,
            Self::Charged(event) => event.account_id,
        }
    }

    /// The balance right after it.
    pub const fn balance_after(&self) -> i64 {
        match self {
            Self::Granted(event) => event.balance_after,
            Self::Adjusted(event) => event.balance_after,
            Self::Charged(event) => event.balance_after,
        }
    }
}
