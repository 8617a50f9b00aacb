//! Decisions on commands that change the credits of an account.

use super::{
    ChargeReason, Credits, CreditsAdjusted, CreditsCharged, CreditsGranted, CreditsRefunded,
    CreditsRevoked,
};
use crate::id::{AccountId, EntryId, KeyId, LinkId};

/// Largest balance, in credits: programs that read JSON numbers as floating-point numbers read it exactly (RFC 8259,
/// section 6).
pub const BALANCE_MAX: i64 = (1 << 53) - 1;

/// The balance does not cover the price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the balance in credits is {balance}, less than {required}")]
pub struct InsufficientCredits {
    /// Current balance, in credits.
    pub balance: i64,
    /// Required credits.
    pub required: u64,
}

/// Reason why a change of credits by an operator is rejected.
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
    /// The balance to set is negative.
    #[error("the balance must be at least 0")]
    BalanceNegative,
    /// The balance would exceed [`BALANCE_MAX`].
    #[error("the balance would exceed {BALANCE_MAX}")]
    BalanceTooLarge,
}

/// Request of an operator to grant credits, or to correct the balance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantRequest {
    /// Number of credits to add; a correction removes credits if it is negative.
    pub amount: i64,
    /// Reason, for operators.
    pub reason: String,
    /// Reference in the seller's system, such as the number of an invoice.
    pub reference: Option<String>,
    /// Text that the owner of the account sees.
    pub description: Option<String>,
}

impl Credits {
    /// Decides that an operator adds credits to the account.
    ///
    /// # Errors
    /// Returns [`CreditsError`] if the amount is not positive or the balance would be too large.
    pub fn decide_grant(
        &self,
        account_id: AccountId,
        request: &GrantRequest,
    ) -> Result<CreditsGranted, CreditsError> {
        if request.amount < 1 {
            return Err(CreditsError::AmountNotPositive);
        }
        let balance_after = self.balance_plus(request.amount)?;
        let request = request.clone();
        Ok(CreditsGranted {
            account_id,
            amount: request.amount,
            balance_after,
            reason: request.reason,
            reference: request.reference,
            description: request.description,
        })
    }

    /// Decides that an operator corrects the balance: adds credits, or removes credits if the amount
    /// is negative.
    ///
    /// # Errors
    /// Returns [`CreditsError`] if the amount is 0, or the balance would be too large or fall below zero.
    pub fn decide_adjust(
        &self,
        account_id: AccountId,
        request: &GrantRequest,
    ) -> Result<CreditsAdjusted, CreditsError> {
        if request.amount == 0 {
            return Err(CreditsError::AmountIsZero);
        }
        let balance_after = self.balance_plus(request.amount)?;
        if balance_after < 0 {
            return Err(CreditsError::Insufficient(InsufficientCredits {
                balance: self.balance,
                required: request.amount.unsigned_abs(),
            }));
        }
        let request = request.clone();
        Ok(CreditsAdjusted {
            account_id,
            amount: request.amount,
            balance_after,
            reason: request.reason,
            reference: request.reference,
            description: request.description,
        })
    }

    /// Decides that an operator sets the balance, as one correction, which is 0 if the account has this balance.
    ///
    /// # Errors
    /// Returns [`CreditsError::BalanceNegative`] or [`CreditsError::BalanceTooLarge`].
    pub fn decide_set_balance(
        &self,
        account_id: AccountId,
        balance: i64,
        reason: &str,
    ) -> Result<CreditsAdjusted, CreditsError> {
        if balance < 0 {
            return Err(CreditsError::BalanceNegative);
        }
        if balance > BALANCE_MAX {
            return Err(CreditsError::BalanceTooLarge);
        }
        Ok(CreditsAdjusted {
            account_id,
            // Cannot overflow: neither balance is negative.
            amount: balance - self.balance,
            balance_after: balance,
            reason: reason.to_owned(),
            reference: None,
            description: None,
        })
    }

    /// Decides that an operator gives the charge with the id `entry` back. The caller ensures that the charge was not
    /// given back before.
    ///
    /// # Errors
    /// Returns [`CreditsError::BalanceTooLarge`].
    pub fn decide_refund(
        &self,
        account_id: AccountId,
        charged: &CreditsCharged,
        entry: EntryId,
        reason: &str,
    ) -> Result<CreditsRefunded, CreditsError> {
        Ok(CreditsRefunded {
            account_id,
            amount: charged.amount,
            balance_after: self.balance_plus(charged.amount)?,
            refunds: entry,
            link_id: charged.link_id,
            reason: reason.to_owned(),
        })
    }

    /// Decides that an operator takes the grant with the id `entry` back: at most as many credits as the balance has.
    /// The caller ensures that the grant was not taken back before.
    pub fn decide_revoke(
        &self,
        account_id: AccountId,
        granted: &CreditsGranted,
        entry: EntryId,
        reason: &str,
    ) -> CreditsRevoked {
        let amount = granted.amount.min(self.balance);
        CreditsRevoked {
            account_id,
            grant: entry,
            asked: granted.amount,
            amount,
            short: granted.amount - amount,
            balance_after: self.balance - amount,
            reason: reason.to_owned(),
        }
    }

    /// Decides that the account pays the price of a link that a request with this API key creates; the price may be 0.
    /// The charge names the lowest threshold of the account that it crosses.
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
        let balance_after = self.balance - price;
        Ok(CreditsCharged {
            account_id,
            amount: price,
            balance_after,
            link_id,
            key_id,
            reason: ChargeReason::LinkCreated,
            low_balance: self.low_balance_at.crossed_by(self.balance, balance_after),
        })
    }

    fn balance_plus(&self, amount: i64) -> Result<i64, CreditsError> {
        let sum = self.balance.checked_add(amount);
        let sum = sum.filter(|sum| *sum <= BALANCE_MAX);
        sum.ok_or(CreditsError::BalanceTooLarge)
    }
}

#[cfg(test)]
mod tests;
