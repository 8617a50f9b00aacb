//! The answer to a question: rows of figures, each with its target.

use serde::Serialize;

use crate::rounds::Spread;

/// Target of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetValue {
    /// The figure should be this value or more.
    AtLeast(f64),
    /// The figure should be this value or less.
    AtMost(f64),
}

impl TargetValue {
    /// Divides the figure by the target, or the target by the figure, so that 1 and above means
    /// that the target is reached.
    pub fn times(self, figure: f64) -> f64 {
        match self {
            Self::AtLeast(least) => figure / least,
            Self::AtMost(most) => most / figure,
        }
    }
}

/// Baseline that was measured in the same rounds.
#[derive(Debug, Clone, Serialize)]
pub struct BaselineFigures {
    /// Description of the baseline.
    pub what: String,
    /// Figures of the baseline, in the unit of the row.
    pub figures: Spread,
}

/// One figure of an answer.
#[derive(Debug, Clone, Serialize)]
pub struct ReportRow {
    /// Description of the figure.
    pub what: String,
    /// Unit of `measured` and of the baseline.
    pub unit: &'static str,
    /// Figures of all rounds.
    pub measured: Spread,
    /// Baseline; present if the row is a ratio.
    pub baseline: Option<BaselineFigures>,
    /// Ratio of the figure to the baseline, of all rounds.
    pub ratio: Option<Spread>,
    /// Target of the ratio, or of `measured` if there is no ratio; `None` if there is no target.
    pub reach: Option<TargetValue>,
}

impl ReportRow {
    /// Makes a row whose figure itself has the target.
    pub fn absolute(
        what: impl Into<String>,
        unit: &'static str,
        rounds: &[f64],
        reach: Option<TargetValue>,
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

    /// Makes a row whose target is for the ratio to the baseline of the same round.
    pub fn ratio(
        what: impl Into<String>,
        unit: &'static str,
        rounds: &[f64],
        (baseline, baseline_rounds): (&str, &[f64]),
        reach: Option<TargetValue>,
    ) -> Self {
        Self {
            what: what.into(),
            unit,
            measured: Spread::of(rounds),
            baseline: Some(BaselineFigures {
                what: baseline.to_owned(),
                figures: Spread::of(baseline_rounds),
            }),
            ratio: Some(Spread::ratio(rounds, baseline_rounds)),
            reach,
        }
    }

    /// Returns the figures to which the target applies.
    pub fn judged(&self) -> &Spread {
        self.ratio.as_ref().unwrap_or(&self.measured)
    }

    /// Returns true if the median reaches the target, or `None` if there is no target.
    pub fn is_reached(&self) -> Option<bool> {
        let times = self.reach?.times(self.judged().median);
        Some(times >= 1.0)
    }
}

/// Latencies by share of the requests.
#[derive(Debug, Clone, Serialize)]
pub struct LatencyCurve {
    /// Description of the requests.
    pub what: String,
    /// Shares of the requests (0 to 1), each with the latency in milliseconds that no request of
    /// the share exceeds.
    pub points: Vec<(f64, f64)>,
}

/// The answer to a question.
#[derive(Debug, Clone, Serialize)]
pub struct QuestionAnswer {
    /// Name of the question, also of its command and its files.
    pub question: &'static str,
    /// Title for people.
    pub title: &'static str,
    /// Figures.
    pub rows: Vec<ReportRow>,
    /// Latencies, drawn in a plot of their own.
    pub latencies: Vec<LatencyCurve>,
    /// Notes that a reader needs beside the figures.
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::{ReportRow, TargetValue};

    #[test]
    fn verdict_uses_the_median_ratio() {
        let reach = |least| Some(TargetValue::AtLeast(least));
        let row =
            |least| ReportRow::ratio("x", "/s", &[2.0, 4.0, 9.0], ("y", &[1.0; 3]), reach(least));
        assert_eq!(row(4.0).is_reached(), Some(true));
        assert_eq!(row(4.1).is_reached(), Some(false));
    }

    #[test]
    fn at_most_target_is_met_below_the_value() {
        let row = |most| ReportRow::absolute("x", "ms", &[5.0], Some(TargetValue::AtMost(most)));
        assert_eq!(row(5.0).is_reached(), Some(true));
        assert_eq!(row(4.9).is_reached(), Some(false));
        assert_eq!(
            ReportRow::absolute("x", "ms", &[5.0], None).is_reached(),
            None
        );
    }
}
