//! Thresholds of a balance: a charge that crosses one is an alert that the credits run low (`docs/webhooks.md`).

use serde::{Deserialize, Serialize};

use super::BALANCE_MAX;

/// Maximal number of thresholds of an account.
pub const LOW_BALANCE_MAX: usize = 5;

/// Thresholds of an account, in credits: at most [`LOW_BALANCE_MAX`] distinct numbers from 1 to [`BALANCE_MAX`], the
/// lowest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<i64>", into = "Vec<i64>")]
pub struct LowBalanceAt {
    /// Thresholds, and 0 in each place that has none.
    places: [i64; LOW_BALANCE_MAX],
    count: u8,
}

/// Reason why numbers are no thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLowBalanceAt {
    /// A number is no balance that a charge can cross.
    #[error("a threshold is a whole number of credits from 1 to {BALANCE_MAX}")]
    OutOfRange,
    /// There are more than [`LOW_BALANCE_MAX`] numbers.
    #[error("an account has at most {LOW_BALANCE_MAX} thresholds")]
    TooMany,
}

impl LowBalanceAt {
    /// No thresholds.
    pub const NONE: Self = Self {
        places: [0; LOW_BALANCE_MAX],
        count: 0,
    };

    /// Returns true if a charge can cross the threshold.
    pub const fn accepts(threshold: i64) -> bool {
        1 <= threshold && threshold <= BALANCE_MAX
    }

    /// Returns thresholds that are given in any order, also repeatedly.
    ///
    /// # Errors
    /// Returns [`InvalidLowBalanceAt`] if a threshold is out of range, or if there are too many.
    pub fn of(mut thresholds: Vec<i64>) -> Result<Self, InvalidLowBalanceAt> {
        if thresholds.len() > LOW_BALANCE_MAX {
            return Err(InvalidLowBalanceAt::TooMany);
        }
        if !thresholds.iter().copied().all(Self::accepts) {
            return Err(InvalidLowBalanceAt::OutOfRange);
        }
        thresholds.sort_unstable();
        thresholds.dedup();
        Ok(Self::stored(&thresholds))
    }

    /// Returns the thresholds of a stored row as they are. The row was checked when it was written, and has at most
    /// [`LOW_BALANCE_MAX`] by a constraint.
    pub fn stored(thresholds: &[i64]) -> Self {
        let mut stored = Self::NONE;
        for (place, threshold) in stored.places.iter_mut().zip(thresholds) {
            *place = *threshold;
            stored.count += 1;
        }
        stored
    }

    /// Returns the thresholds, the lowest first.
    pub fn as_slice(&self) -> &[i64] {
        &self.places[..usize::from(self.count)]
    }

    /// Returns true if there are no thresholds.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the lowest threshold that a charge crosses: the balance was not below the threshold before, and is
    /// after.
    pub fn crossed_by(&self, before: i64, after: i64) -> Option<i64> {
        let crossed = self.as_slice().iter().copied();
        let crossed = crossed.filter(|threshold| before >= *threshold && *threshold > after);
        crossed.min()
    }
}

impl TryFrom<Vec<i64>> for LowBalanceAt {
    type Error = InvalidLowBalanceAt;

    fn try_from(thresholds: Vec<i64>) -> Result<Self, InvalidLowBalanceAt> {
        Self::of(thresholds)
    }
}

impl From<LowBalanceAt> for Vec<i64> {
    fn from(thresholds: LowBalanceAt) -> Self {
        thresholds.as_slice().to_vec()
    }
}

#[cfg(test)]
mod tests;
