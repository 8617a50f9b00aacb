//! The credits of an account: granted, adjusted, charged, given and taken back, never below zero
//! (`docs/api.md#credits`).

pub mod command;
pub mod event;
mod low_balance;

pub use command::{BALANCE_MAX, CreditsError, GrantRequest, InsufficientCredits};
pub use event::*;
pub use low_balance::{InvalidLowBalanceAt, LOW_BALANCE_MAX, LowBalanceAt};

/// Highest price of a link: that of a whole batch is still a number of credits.
pub const LINK_PRICE_MAX: i64 = 1_000_000_000_000;
/// Maximal length of a reference, in characters.
pub const REFERENCE_LENGTH_MAX: usize = 128;

/// Credits of one account, derived from the events of the account's stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Credits {
    /// Balance, in credits.
    pub balance: i64,
    /// Number of events in the account's stream, including events that do not concern credits.
    pub version: i64,
    /// Thresholds of the account, which charges record when they cross them.
    pub low_balance_at: LowBalanceAt,
}

impl Credits {
    /// Returns the state after one more event. Never fails: an event is a fact.
    #[must_use]
    pub fn apply(self, event: &CreditsEvent) -> Self {
        Self {
            balance: event.balance_after(),
            version: self.version + 1,
            ..self
        }
    }

    /// Returns the state after an event of the account's stream that does not concern credits.
    #[must_use]
    pub fn pass(self) -> Self {
        Self {
            version: self.version + 1,
            ..self
        }
    }
}
