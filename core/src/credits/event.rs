//! Events of an account's credits.

use serde::{Deserialize, Serialize};

use crate::{
    field::TEXT_LENGTH_MAX,
    id::{AccountId, EntryId, KeyId, LinkId},
};

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
    /// An operator gave a charge back.
    Refunded(CreditsRefunded),
    /// An operator took a grant back.
    Revoked(CreditsRevoked),
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
    #[schemars(length(min = 1, max = TEXT_LENGTH_MAX))]
    pub reason: String,
    /// Reference in the seller's system, such as the number of an invoice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = TEXT_LENGTH_MAX))]
    pub reference: Option<String>,
    /// Text that the owner of the account sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = TEXT_LENGTH_MAX))]
    pub description: Option<String>,
}

/// An operator corrected the balance of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CreditsAdjusted {
    /// Account whose balance was corrected.
    pub account_id: AccountId,
    /// Number of credits added, or removed if negative; 0 if the balance was set to what it was.
    pub amount: i64,
    /// Balance after the event, in credits; never negative.
    #[schemars(range(min = 0))]
    pub balance_after: i64,
    /// Reason given by the operator.
    #[schemars(length(min = 1, max = TEXT_LENGTH_MAX))]
    pub reason: String,
    /// Reference in the seller's system, such as the number of an invoice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = TEXT_LENGTH_MAX))]
    pub reference: Option<String>,
    /// Text that the owner of the account sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = TEXT_LENGTH_MAX))]
    pub description: Option<String>,
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
    /// Lowest threshold of the account that the charge crossed: the balance was not below it before, and is after.
    /// Absent if the charge crossed none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 1))]
    pub low_balance: Option<i64>,
}

/// An operator gave the credits of a charge back to the account.
///
/// A charge is given back at most once, and as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CreditsRefunded {
    /// Account that receives the credits.
    pub account_id: AccountId,
    /// Number of credits given back: the amount of the charge.
    #[schemars(range(min = 0))]
    pub amount: i64,
    /// Balance after the event, in credits; never negative.
    #[schemars(range(min = 0))]
    pub balance_after: i64,
    /// Entry of the charge that is given back; has the UUID of its `CreditsCharged`.
    pub refunds: EntryId,
    /// The link that was paid for.
    pub link_id: LinkId,
    /// Reason given by the operator.
    #[schemars(length(min = 1, max = TEXT_LENGTH_MAX))]
    pub reason: String,
}

/// An operator took the credits of a grant back from the account, as far as the balance allows.
///
/// A grant is taken back at most once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CreditsRevoked {
    /// Account that loses the credits.
    pub account_id: AccountId,
    /// Entry of the grant that is taken back; has the UUID of its `CreditsGranted`.
    pub grant: EntryId,
    /// Number of credits of the grant.
    #[schemars(range(min = 1))]
    pub asked: i64,
    /// Number of credits taken: those asked for, at most the balance.
    #[schemars(range(min = 0))]
    pub amount: i64,
    /// Number of credits asked for that the balance did not have.
    #[schemars(range(min = 0))]
    pub short: i64,
    /// Balance after the event, in credits; never negative.
    #[schemars(range(min = 0))]
    pub balance_after: i64,
    /// Reason given by the operator.
    #[schemars(length(min = 1, max = TEXT_LENGTH_MAX))]
    pub reason: String,
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
            Self::Refunded(event) => event.balance_after,
            Self::Revoked(event) => event.balance_after,
        }
    }

    /// Returns the charge that a refund gives back, or the grant that a revocation takes back.
    pub const fn reversed_entry(&self) -> Option<EntryId> {
        match self {
            Self::Refunded(event) => Some(event.refunds),
            Self::Revoked(event) => Some(event.grant),
            Self::Granted(_) | Self::Adjusted(_) | Self::Charged(_) => None,
        }
    }
}
