//! Figures of the rounds of a benchmark, and the rows of its report.

use std::collections::BTreeMap;

use serde::Serialize;

/// Goal of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The figure should be this value or more.
    AtLeast(f64),
    /// The figure should be this value or less.
    AtMost(f64),
}

impl Goal {
    /// Divides the figure by the goal, or the goal by the figure, so that 1 and above means that
    /// the goal is reached.
    pub fn times(self, figure: f64) -> f64 {
        match self {
            Self::AtLeast(least) => figure / least,
            Self::AtMost(most) => most / figure,
        }
    }
}

/// Figures of several rounds, with minimum, median and maximum.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    /// Smallest figure.
    pub min: f64,
    /// Median; of an even number of rounds, the mean of the two middle figures.
    pub median: f64,
    /// Largest figure.
    pub max: f64,
    /// Figures of all rounds, in order.
    pub rounds: Vec<f64>,
}

impl Spread {
    /// Computes the statistics of at least one round.
    pub fn of(rounds: &[f64]) -> Self {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        Self {
            min: sorted[0],
            median: f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[middle]),
            max: sorted[sorted.len() - 1],
            rounds: rounds.to_vec(),
        }
    }

    /// Divides round by round, so that noise that slowed both sides cancels out.
    pub fn ratio(measured: &[f64], baseline: &[f64]) -> Self {
        assert_eq!(measured.len(), baseline.len(), "of the same rounds");
        let ratios: Vec<f64> = measured.iter().zip(baseline).map(|(a, b)| a / b).collect();
        Self::of(&ratios)
    }
}

/// Baseline that was measured in the same rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Baseline {
    /// Description of the baseline.
    pub what: String,
    /// Figures of the baseline, in the unit of the row.
    pub figures: Spread,
}

/// One figure of a report.
#[derive(Debug, Clone, Serialize)]
pub struct ReportRow {
    /// Description of the figure.
    pub what: String,
    /// Unit of `measured` and of the baseline.
    pub unit: &'static str,
    /// Figures of all rounds.
    pub measured: Spread,
    /// Baseline; present if the row is a ratio.
    pub baseline: Option<Baseline>,
    /// Ratio of the figure to the baseline, of all rounds.
    pub ratio: Option<Spread>,
    /// Goal of the ratio, or of `measured` if there is no ratio; `None` if there is no goal.
    pub reach: Option<Goal>,
}

impl ReportRow {
    /// Sets the goal: this value or more.
    #[must_use]
    pub fn at_least(self, least: f64) -> Self {
        self.reach(Goal::AtLeast(least))
    }

    /// Sets the goal: this value or less.
    #[must_use]
    pub fn at_most(self, most: f64) -> Self {
        self.reach(Goal::AtMost(most))
    }

    /// Sets the goal.
    #[must_use]
    pub fn reach(self, goal: Goal) -> Self {
        let reach = Some(goal);
        Self { reach, ..self }
    }

    /// Gives the row another description than its figures have.
    #[must_use]
    pub fn named(self, what: impl Into<String>) -> Self {
        let what = what.into();
        Self { what, ..self }
    }

    /// Gives the baseline another description than its figures have.
    #[must_use]
    pub fn to(mut self, baseline: impl Into<String>) -> Self {
        if let Some(of_row) = &mut self.baseline {
            of_row.what = baseline.into();
        }
        self
    }

    /// Returns the figures to which the goal applies.
    pub fn judged(&self) -> &Spread {
        self.ratio.as_ref().unwrap_or(&self.measured)
    }

    /// Returns true if the median reaches the goal, or `None` if there is no goal.
    pub fn is_reached(&self) -> Option<bool> {
        let times = self.reach?.times(self.judged().median);
        Some(times >= 1.0)
    }
}

/// Figures of all rounds of a benchmark, by their descriptions.
#[derive(Debug, Default)]
pub struct Figures(BTreeMap<String, Vec<f64>>);

impl Figures {
    /// Adds the figure of a round.
    pub fn add(&mut self, what: &str, figure: f64) {
        self.0.entry(what.to_owned()).or_default().push(figure);
    }

    /// Returns the figures of all rounds, at least one.
    pub fn of(&self, what: &str) -> &[f64] {
        let figures = self.0.get(what);
        figures.unwrap_or_else(|| panic!("{what:?} is among the measured {:?}", self.0.keys()))
    }

    /// Returns the median of all rounds.
    pub fn median(&self, what: &str) -> f64 {
        Spread::of(self.of(what)).median
    }

    /// Makes a row whose goal is for the figure itself.
    pub fn row(&self, what: &str, unit: &'static str) -> ReportRow {
        ReportRow {
            what: what.to_owned(),
            unit,
            measured: Spread::of(self.of(what)),
            baseline: None,
            ratio: None,
            reach: None,
        }
    }

    /// Makes a row whose goal is for the ratio to the baseline of the same round.
    pub fn ratio(&self, what: &str, unit: &'static str, baseline: &str) -> ReportRow {
        ReportRow {
            baseline: Some(Baseline {
                what: baseline.to_owned(),
                figures: Spread::of(self.of(baseline)),
            }),
            ratio: Some(Spread::ratio(self.of(what), self.of(baseline))),
            ..self.row(what, unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, Spread};

    #[test]
    fn ratio_divides_figures_of_the_same_round() {
        let spread = Spread::ratio(&[2.0, 9.0, 4.0], &[1.0, 3.0, 4.0]);
        assert_eq!(spread.rounds, [2.0, 3.0, 1.0]);
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
    }

    #[test]
    fn median_of_even_count_is_the_middle_mean() {
        let median = Spread::of(&[4.0, 1.0, 2.0, 8.0]).median;
        assert!((median - 3.0).abs() < f64::EPSILON, "{median}");
    }

    #[test]
    fn verdict_uses_the_median_ratio() {
        let mut figures = Figures::default();
        for figure in [2.0, 4.0, 9.0] {
            figures.add("x", figure);
            figures.add("y", 1.0);
        }
        let row = figures.ratio("x", "/s", "y");
        assert_eq!(row.clone().at_least(4.0).is_reached(), Some(true));
        assert_eq!(row.at_least(4.1).is_reached(), Some(false));
    }

    #[test]
    fn goal_of_at_most_is_met_below_the_value() {
        let mut figures = Figures::default();
        figures.add("x", 5.0);
        let row = figures.row("x", "ms");
        assert_eq!(row.is_reached(), None);
        assert_eq!(row.clone().at_most(5.0).is_reached(), Some(true));
        assert_eq!(row.at_most(4.9).is_reached(), Some(false));
    }
}
