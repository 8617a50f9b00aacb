//! The credits of an account: granted, charged, never below zero (contract §5).

pub mod command;
pub mod event;

pub use command::{ChargeForLink, GrantCredits, GrantError, InsufficientCredits};
pub use event::{ChargeReason, CreditsCharged, CreditsEvent, CreditsGranted};

/// The credits of one account, folded from the account's stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Credits {
    /// What can be spent.
    pub balance: i64,
    /// Number of events in the account's stream.
    pub version: i64,
}

impl Credits {
    /// The state after one more event. Total: an event is a fact and is never refused.
    #[must_use]
    pub fn apply(self, event: &CreditsEvent) -> Self {
        let balance = match event {
            CreditsEvent::Granted(granted) => granted.balance_after,
            CreditsEvent::Charged(charged) => charged.balance_after,
        };
        Self {
            balance,
            version: self.version + 1,
        }
    }
}
