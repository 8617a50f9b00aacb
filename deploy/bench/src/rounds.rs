//! Statistics of several rounds of a measurement.

use serde::Serialize;

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
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Self {
            min: sorted[0],
            median,
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

#[cfg(test)]
mod tests {
    use super::Spread;

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
}
