//! Decisions on commands that change the credits of an account.

use super::{ChargeReason, Credits, CreditsAdjusted, CreditsCharged, CreditsGranted};
use crate::id::{AccountId, KeyId, LinkId};

/// The balance does not cover the price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the balance in credits is {balance}, less than {required}")]
pub struct InsufficientCredits {
    /// Current balance, in credits.
    pub balance: i64,
    /// Required credits.
    pub required: u64,
}

/// Reason why a grant or an adjustment is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreditsError {
    /// The amount of a grant is 0 or negative.
    #[error("the amount must be at least 1")]
    AmountNotPositive,
    /// The amount of an adjustment is 0.
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
    /// Decides that an operator adds credits to the account.
    ///
    /// # Errors
    /// Returns [`CreditsError`] if the amount is not positive or the balance would overflow.
    pub fn decide_grant(
        &self,
        account_id: AccountId,
        amount: i64,
        reason: &str,
    ) -> Result<CreditsGranted, CreditsError> {
        if amount < 1 {
            return Err(CreditsError::AmountNotPositive);
        }
        Ok(CreditsGranted {
            account_id,
            amount,
            balance_after: self.balance_plus(amount)?,
            reason: reason.to_owned(),
        })
    }

    /// Decides that an operator corrects the balance: adds credits, or removes credits if the amount
    /// is negative.
    ///
    /// # Errors
    /// Returns [`CreditsError`] if the amount is 0, or the balance would overflow or fall below
    /// zero.
    pub fn decide_adjust(
        &self,
        account_id: AccountId,
        amount: i64,
        reason: &str,
    ) -> Result<CreditsAdjusted, CreditsError> {
        if amount == 0 {
            return Err(CreditsError::AmountIsZero);
        }
        let balance_after = self.balance_plus(amount)?;
        if balance_after < 0 {
            return Err(CreditsError::Insufficient(InsufficientCredits {
                balance: self.balance,
                required: amount.unsigned_abs(),
            }));
        }
        Ok(CreditsAdjusted {
            account_id,
            amount,
            balance_after,
            reason: reason.to_owned(),
        })
    }

    /// Decides that the account pays the price of a link that a request with this API key creates; the price may be 0.
    ///
    /// # Errors
    /// Returns [`InsufficientCredits`] if the price exceeds the balance: the balance never falls
    /// below zero.
    pub fn decide_charge(
        &self,
        account_id: AccountId,
        price: i64,
        link_id: LinkId,
        key_id: KeyId,
    ) -> Result<CreditsCharged, InsufficientCredits> {
        if price > self.balance {
            return Err(InsufficientCredits {
                balance: self.balance,
                required: price.unsigned_abs(),
            });
        }
        Ok(CreditsCharged {
            account_id,
            amount: price,
            balance_after: self.balance - price,
            link_id,
            key_id,
            reason: ChargeReason::LinkCreated,
        })
    }

    fn balance_plus(&self, amount: i64) -> Result<i64, CreditsError> {
        let sum = self.balance.checked_add(amount);
        sum.ok_or(CreditsError::BalanceTooLarge)
    }
}

#[cfg(test)]
mod tests;
