//! Commands on the credits of an account, and their decisions.

use super::{ChargeReason, Credits, CreditsAdjusted, CreditsCharged, CreditsGranted};
use crate::id::{AccountId, LinkId};

/// Adds credits to an account.
#[derive(Debug, Clone)]
pub struct GrantCredits {
    /// Account that receives the credits.
    pub account_id: AccountId,
    /// Number of credits to add; at least 1.
    pub amount: i64,
    /// Reason for the grant, shown in the ledger.
    pub reason: String,
}

/// Corrects the balance of an account.
#[derive(Debug, Clone)]
pub struct AdjustCredits {
    /// Account whose balance is corrected.
    pub account_id: AccountId,
    /// Number of credits to add, or to remove if negative.
    pub amount: i64,
    /// Reason for the adjustment, shown in the ledger.
    pub reason: String,
}

/// Charges the price of a link.
#[derive(Debug, Clone, Copy)]
pub struct ChargeForLink {
    /// Account that pays.
    pub account_id: AccountId,
    /// Price in credits; may be 0.
    pub price: i64,
    /// Link that is paid for.
    pub link_id: LinkId,
}

/// The balance does not cover the price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the balance of {balance} credits does not cover {required}")]
pub struct InsufficientCredits {
    /// Current balance, in credits.
    pub balance: i64,
    /// Required credits.
    pub required: i64,
}

/// Reason why a grant is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The amount is 0 or negative.
    #[error("the amount must be at least 1")]
    AmountNotPositive,
    /// The sum would exceed the range of a balance.
    #[error("the balance would exceed {}", i64::MAX)]
    BalanceTooLarge,
}

/// Reason why an adjustment is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdjustError {
    /// The amount is 0.
    #[error("the amount must not be 0")]
    AmountIsZero,
    /// More credits would be removed than the balance has.
    #[error(transparent)]
    Insufficient(InsufficientCredits),
    /// The sum would exceed the range of a balance.
    #[error("the balance would exceed {}", i64::MAX)]
    BalanceTooLarge,
}

impl Credits {
    /// Decides a grant.
    ///
    /// # Errors
    /// Returns [`GrantError`] if the amount is not positive or the balance would overflow.
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

    /// Decides an adjustment.
    ///
    /// # Errors
    /// Returns [`AdjustError`] if the amount is 0, or the balance would overflow or fall below
    /// zero.
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

    /// Decides a charge.
    ///
    /// # Errors
    /// Returns [`InsufficientCredits`] if the price exceeds the balance: the balance never falls
    /// below zero.
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
