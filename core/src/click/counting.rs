//! Countings: independent passes over the topic of clicks.

use std::{fmt, str::FromStr};

use serde::Serialize;

/// A pass over the topic of clicks, with positions and figures of its own. A counting that lags does not delay
/// the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Counting {
    /// Clicks of quarters of hours and of days, visitors of days.
    Totals,
    /// Clicks and visitors by country, referrer, browser, operating system and device.
    Values,
}

/// The text names no counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a counting is wanted: totals or values")]
pub struct UnknownCounting;

impl Counting {
    /// All countings, by name.
    pub const ALL: [Self; 2] = [Self::Totals, Self::Values];

    /// Returns the name in SQL, metrics and commands.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Totals => "totals",
            Self::Values => "values",
        }
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Counting {
    type Err = UnknownCounting;

    fn from_str(text: &str) -> Result<Self, UnknownCounting> {
        let mut all = Self::ALL.into_iter();
        all.find(|counting| counting.name() == text)
            .ok_or(UnknownCounting)
    }
}
