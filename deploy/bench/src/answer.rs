//! What a question comes to: rows of figures, each beside what it should reach.

use serde::Serialize;

use crate::rounds::Spread;

/// What a figure should be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// The more the better.
    AtLeast(f64),
    /// The less the better.
    AtMost(f64),
}

impl Reach {
    /// How many times it is reached: 1 and above is reached.
    pub fn times(self, figure: f64) -> f64 {
        match self {
            Self::AtLeast(least) => figure / least,
            Self::AtMost(most) => most / figure,
        }
    }
}

/// What was measured beside it, in the same rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Baseline {
    /// What it is.
    pub what: String,
    /// Its figures, in the unit of the row.
    pub figures: Spread,
}

/// One figure of an answer.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// Of `measured` and of the baseline.
    pub unit: &'static str,
    /// Of each round.
    pub measured: Spread,
    /// Present if the row is a ratio.
    pub baseline: Option<Baseline>,
    /// Measured to baseline, of each round.
    pub ratio: Option<Spread>,
    /// Of the ratio if there is one, else of what was measured; `None`: nothing is promised.
    pub reach: Option<Reach>,
}

impl Row {
    /// A figure that is judged by itself.
    pub fn absolute(
        what: impl Into<String>,
        unit: &'static str,
        rounds: &[f64],
        reach: Option<Reach>,
    ) -> Self {
        Self {
            what: what.into(),
            unit,
            measured: Spread::of(rounds),
            baseline: None,
            ratio: None,
            reach,
        }
    }

    /// A figure that is judged by its ratio to the baseline of the same round.
    pub fn ratio(
        what: impl Into<String>,
        unit: &'static str,
        rounds: &[f64],
        (baseline, baseline_rounds): (&str, &[f64]),
        reach: Option<Reach>,
    ) -> Self {
        Self {
            what: what.into(),
            unit,
            measured: Spread::of(rounds),
            baseline: Some(Baseline {
                what: baseline.to_owned(),
                figures: Spread::of(baseline_rounds),
            }),
            ratio: Some(Spread::ratio(rounds, baseline_rounds)),
            reach,
        }
    }

    /// What `reach` speaks of.
    pub fn judged(&self) -> &Spread {
        self.ratio.as_ref().unwrap_or(&self.measured)
    }

    /// Whether the median reaches what it should; `None`: nothing is promised.
    pub fn is_reached(&self) -> Option<bool> {
        let times = self.reach?.times(self.judged().median);
        Some(times >= 1.0)
    }
}

/// Latencies by the share of requests that were answered within them.
#[derive(Debug, Clone, Serialize)]
pub struct LatencyCurve {
    /// Of what.
    pub what: String,
    /// Share of the requests (0 to 1) and milliseconds.
    pub points: Vec<(f64, f64)>,
}

/// What a question comes to.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// Its name, which is that of its command and of its files.
    pub question: &'static str,
    /// What is asked, for people.
    pub title: &'static str,
    /// Its figures.
    pub rows: Vec<Row>,
    /// Drawn in a plot of their own, if there are any.
    pub latencies: Vec<LatencyCurve>,
    /// What a reader must know beside the figures.
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::{Reach, Row};

    #[test]
    fn a_ratio_is_judged_by_its_median() {
        let reach = |least| Some(Reach::AtLeast(least));
        let row = |least| Row::ratio("x", "/s", &[2.0, 4.0, 9.0], ("y", &[1.0; 3]), reach(least));
        assert_eq!(row(4.0).is_reached(), Some(true));
        assert_eq!(row(4.1).is_reached(), Some(false));
    }

    #[test]
    fn what_should_be_small_is_reached_below() {
        let row = |most| Row::absolute("x", "ms", &[5.0], Some(Reach::AtMost(most)));
        assert_eq!(row(5.0).is_reached(), Some(true));
        assert_eq!(row(4.9).is_reached(), Some(false));
        assert_eq!(Row::absolute("x", "ms", &[5.0], None).is_reached(), None);
    }
}
