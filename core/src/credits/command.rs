//! Requests to change the credits of an account, and the decision on them.

use super::{ChargeReason, Credits, CreditsAdjusted, CreditsCharged, CreditsGranted};
use crate::id::{AccountId, LinkId};

/// Add credits to an account.
#[derive(Debug, Clone)]
pub struct GrantCredits {
    /// Whose credits.
    pub account_id: AccountId,
    /// How many; at least 1.
    pub amount: i64,
    /// Why, for the ledger.
    pub reason: String,
}

/// Correct the balance of an account.
#[derive(Debug, Clone)]
pub struct AdjustCredits {
    /// Whose credits.
    pub account_id: AccountId,
    /// How many to add, or to take if negative.
    pub amount: i64,
    /// Why, for the ledger.
    pub reason: String,
}

/// Take the price of a link.
#[derive(Debug, Clone, Copy)]
pub struct ChargeForLink {
    /// Whose credits.
    pub account_id: AccountId,
    /// How many; 0 is a price too.
    pub price: i64,
    /// For which link.
    pub link_id: LinkId,
}

/// The balance does not cover the price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the balance of {balance} credits does not cover {required}")]
pub struct InsufficientCredits {
    /// What is there.
    pub balance: i64,
    /// What is needed.
    pub required: i64,
}

/// Why a grant is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// A grant of nothing, or of less.
    #[error("the amount must be at least 1")]
    AmountNotPositive,
    /// The sum would leave the range of the type.
    #[error("the balance would exceed {}", i64::MAX)]
    BalanceTooLarge,
}

/// Why an adjustment is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdjustError {
    /// It would change nothing.
    #[error("the amount must not be 0")]
    AmountIsZero,
    /// More is to be taken than there is.
    #[error(transparent)]
    Insufficient(InsufficientCredits),
    /// The sum would leave the range of the type.
    #[error("the balance would exceed {}", i64::MAX)]
    BalanceTooLarge,
}

impl Credits {
    /// What a grant leads to.
    ///
    /// # Errors
    /// The rule of the domain that forbids it.
    pub fn decide_grant(&self, command: GrantCredits) -> Result<CreditsGranted, GrantError> {
        let GrantCredits {
            account_id,
            amount,
            reason,
        } = command;
        if amount < 1 {
            return Err(GrantError::AmountNotPositive);
        }
        let balance_after = self
            .balance
            .checked_add(amount)
            .ok_or(GrantError::BalanceTooLarge)?;
        Ok(CreditsGranted {
            account_id,
            amount,
            balance_after,
            reason,
        })
    }

    /// What an adjustment leads to.
    ///
    /// # Errors
    /// The rule of the domain that forbids it.
    pub fn decide_adjust(&self, command: AdjustCredits) -> Result<CreditsAdjusted, AdjustError> {
        let AdjustCredits {
            account_id,
            amount,
            reason,
        } = command;
        if amount == 0 {
            return Err(AdjustError::AmountIsZero);
        }
        let balance_after = self
            .balance
            .checked_add(amount)
            .ok_or(AdjustError::BalanceTooLarge)?;
        if balance_after < 0 {
            return Err(AdjustError::Insufficient(InsufficientCredits {
                balance: self.balance,
                required: amount.saturating_neg(),
            }));
        }
        Ok(CreditsAdjusted {
            account_id,
            amount,
            balance_after,
            reason,
        })
    }

    /// What a charge leads to.
    ///
    /// # Errors
    /// [`InsufficientCredits`]: the balance never falls below zero.
    pub fn decide_charge(
        &self,
        command: ChargeForLink,
    ) -> Result<CreditsCharged, InsufficientCredits> {
        let ChargeForLink {
            account_id,
            price,
            link_id,
        } = command;
        if price > self.balance {
            return Err(InsufficientCredits {
                balance: self.balance,
                required: price,
            });
        }
        Ok(CreditsCharged {
            account_id,
            amount: price,
            balance_after: self.balance - price,
            link_id,
            reason: ChargeReason::LinkCreated,
        })
    }
}

#[cfg(test)]
mod tests;
