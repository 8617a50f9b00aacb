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

/// Payload of `CreditsGranted`, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreditsGranted {
    /// Whose credits.
    pub account_id: AccountId,
    /// How many were added; at least 1.
    pub amount: i64,
    /// The balance right after.
    pub balance_after: i64,
    /// Why, in the operator's words.
    pub reason: String,
}

/// Payload of `CreditsAdjusted`, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreditsAdjusted {
    /// Whose credits.
    pub account_id: AccountId,
    /// How many were added, or taken if negative; never 0.
    pub amount: i64,
    /// The balance right after.
    pub balance_after: i64,
    /// Why, in the operator's words.
    pub reason: String,
}

/// Payload of `CreditsCharged`, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreditsCharged {
    /// Whose credits.
    pub account_id: AccountId,
    /// How many were taken; 0 or more.
    pub amount: i64,
    /// The balance right after.
    pub balance_after: i64,
    /// The link that was paid for.
    pub link_id: LinkId,
    /// What the charge is for.
    pub reason: ChargeReason,
}

/// What a charge is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
