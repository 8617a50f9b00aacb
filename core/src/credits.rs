//! The credits of an account: granted, adjusted, charged, never below zero (contract §5).

pub mod command;
pub mod event;

pub use command::{
    AdjustCredits, AdjustError, ChargeForLink, GrantCredits, GrantError, InsufficientCredits,
};
pub use event::{ChargeReason, CreditsAdjusted, CreditsCharged, CreditsEvent, CreditsGranted};

/// The credits of one account, folded from the account's stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Credits {
    /// What can be spent.
    pub balance: i64,
    /// Number of events in the account's stream, those that are not about credits included.
    pub version: i64,
}

impl Credits {
    /// The state after one more event. Total: an event is a fact and is never refused.
    #[must_use]
    pub fn apply(self, event: &CreditsEvent) -> Self {
        Self {
            balance: event.balance_after(),
            version: self.version + 1,
        }
    }

    /// The state after an event of the account's stream that is not about credits.
    #[must_use]
    pub fn pass(self) -> Self {
        Self {
            version: self.version + 1,
            ..self
        }
    }
}
