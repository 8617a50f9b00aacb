//! The account aggregate: its name, its id in the seller's system, the thresholds of its balance, and its status
//! (`docs/admin-api.md`).
//!
//! Credits, API keys and webhooks have aggregates of their own in the account's stream.

mod event;
mod state;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use event::{
    AccountAfter, AccountChanged, AccountChanges, AccountCreated, AccountEvent, AccountResumed,
    AccountSuspended,
};
pub use state::{Account, AccountChangeRequest, AccountStatus};

/// Maximal length of the external id of an account, in characters.
pub const EXTERNAL_ID_LENGTH_MAX: usize = 128;
/// Regular expression of external ids of accounts: all but `.` and `..`.
pub const EXTERNAL_ID_PATTERN: &str =
    "^([.]{0,2}[A-Za-z0-9_:/@-][A-Za-z0-9._:/@-]*|[.]{3}[A-Za-z0-9._:/@-]*)$";

/// External id of the account that owns the operators' webhooks; no other account can have it.
pub const OPERATORS_EXTERNAL_ID: &str = "operators";
/// Name of that account, until somebody changes it.
pub const OPERATORS_NAME: &str = "Operators";

crate::named_enum! {
    /// State of an account, by its name in answers and in the database.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum AccountState {
        /// API calls are accepted.
        Active = "active",
        /// API calls are refused.
        Suspended = "suspended",
    }
}

/// Parses the id of an account in the seller's system: 1 to 128 of `A-Z`, `a-z`, `0-9`, `.`, `_`, `:`, `/`, `@`
/// and `-`, but neither `.` nor `..`, which vanish from a path. Returns `None` for another text.
pub fn parse_external_id(text: &str) -> Option<String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@-".contains(&byte);
    let is_valid = (1..=EXTERNAL_ID_LENGTH_MAX).contains(&text.len())
        && text.bytes().all(is_allowed)
        && !matches!(text, "." | "..");
    is_valid.then(|| text.to_owned())
}
