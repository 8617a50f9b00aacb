//! Visits to short links with a realistic distribution: a few links get most visits.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use rand::{
    SeedableRng as _,
    distr::{Distribution as _, weighted::WeightedIndex},
    rngs::SmallRng,
    seq::SliceRandom as _,
};

/// Exponent of the Zipf distribution: the link of rank `k` gets a share of the visits in proportion
/// to `1 / k`.
pub const EXPONENT: f64 = 1.0;
/// Seed of the random numbers, so that every run has the same visits.
pub const SEED: u64 = 1;
/// Number of visits that are drawn before the load, so that a visit costs the load little. After
/// the last visit the first follows again.
const DRAWN: usize = 1 << 22;

/// The links of all visits, in order.
#[derive(Debug)]
pub struct Visits {
    links: Box<[u32]>,
    next: AtomicUsize,
}

impl Visits {
    /// Draws visits to the links 1 to `links`.
    ///
    /// # Errors
    /// Returns an error if `links` is zero.
    pub fn draw(links: u32) -> anyhow::Result<Self> {
        Self::draw_some(links, DRAWN)
    }

    /// Draws the first `count` of these visits.
    pub(crate) fn draw_some(links: u32, count: usize) -> anyhow::Result<Self> {
        let mut random = SmallRng::seed_from_u64(SEED);
        let shares = (1..=links).map(|rank| f64::from(rank).powf(-EXPONENT));
        let ranks = WeightedIndex::new(shares).context("visits need links")?;
        // The popular links must not be neighbours in the tables.
        let mut by_rank: Vec<u32> = (1..=links).collect();
        by_rank.shuffle(&mut random);
        let drawn = ranks.sample_iter(random).take(count);
        Ok(Self {
            links: drawn.map(|rank| by_rank[rank]).collect(),
            next: AtomicUsize::new(0),
        })
    }

    /// Returns the link of the next visit.
    pub fn next(&self) -> u32 {
        self.links[self.next.fetch_add(1, Ordering::Relaxed) % self.links.len()]
    }
}

#[cfg(test)]
mod tests {
    use std::{cmp::Reverse, collections::HashMap, sync::LazyLock};

    use super::{DRAWN, Visits};

    const LINKS: u32 = 1_000;
    const SOME: usize = 1 << 18;

    /// Number of visits of each link, the most visited first.
    static COUNTS: LazyLock<Vec<(u32, usize)>> = LazyLock::new(|| {
        let visits = Visits::draw(LINKS).unwrap();
        let mut counts = HashMap::new();
        for _ in 0..DRAWN {
            *counts.entry(visits.next()).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| Reverse(*count));
        counts
    });

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn visits_follow_the_zipf_distribution() {
        assert_eq!(COUNTS.len(), LINKS as usize);
        let harmonic: f64 = (1..=LINKS).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [1, 2, 3, 10, 30] {
            let expected = DRAWN as f64 / harmonic / rank as f64;
            let seen = COUNTS[rank - 1].1 as f64;
            assert!(
                (seen / expected - 1.0).abs() < 0.03,
                "{rank}: {seen} of {expected}"
            );
        }
    }

    #[test]
    fn popular_links_are_not_neighbours() {
        let links: Vec<u32> = COUNTS.iter().take(10).map(|(link, _)| *link).collect();
        assert!(links.iter().all(|link| (1..=LINKS).contains(link)));
        let is_neighbour = |pair: &[u32]| pair[0].abs_diff(pair[1]) == 1;
        assert!(!links.windows(2).any(is_neighbour), "{links:?}");
    }

    #[test]
    fn visits_are_the_same_in_every_run() {
        let [a, b] = [(); 2].map(|()| Visits::draw_some(LINKS, SOME).unwrap());
        assert_eq!(a.links, b.links);
    }
}
