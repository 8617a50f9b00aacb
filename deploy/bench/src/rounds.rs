//! What several rounds of a measurement come to.

use serde::Serialize;

/// The figures of several rounds, in their order, and how far they lie apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The one in the middle; of an even number, the mean of the two.
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// Each of them.
    pub rounds: Vec<f64>,
}

impl Spread {
    /// What these rounds come to; at least one.
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

    /// Round by round: noise that both had falls out.
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
    fn a_ratio_is_of_the_two_figures_of_one_round() {
        let spread = Spread::ratio(&[2.0, 9.0, 4.0], &[1.0, 3.0, 4.0]);
        assert_eq!(spread.rounds, [2.0, 3.0, 1.0]);
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 3.0));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        let median = Spread::of(&[4.0, 1.0, 2.0, 8.0]).median;
        assert!((median - 3.0).abs() < f64::EPSILON, "{median}");
    }
}
