//! The most frequent values of a dimension in a range of UTC days.
//!
//! Visitors are estimated for each day, and the estimates are added, as in [`super::statistics`]. Only the unions of
//! one day are in memory at a time, so rows must arrive in the order of their days.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    mem,
};

use time::Date;

use super::{
    dimension::{NO_VALUE, OTHER_VALUES},
    dimension_counts::{DamagedCounts, DimensionCounts},
    sketch::SketchUnion,
    statistics::DamagedStatistics,
};

/// Maximum number of values in memory: made-up referrers of many days could fill the memory otherwise.
const VALUES_IN_MEMORY_MAX: usize = 10_000;
/// Number of values that stay in memory when there are too many: those with the most clicks up to then.
const VALUES_KEPT: usize = 5_000;

/// The items with the most human clicks, most first; with equal numbers in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Top<K> {
    /// The items.
    pub items: Vec<TopItem<K>>,
    /// Human clicks that belong to no item.
    pub other: u64,
}

/// Value or link with its statistics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopItem<K> {
    /// The value or the link.
    pub key: K,
    /// Human clicks.
    pub clicks: u64,
    /// Estimated visitors of each UTC day, added over days.
    pub visitors: u64,
}

/// Sums of a value.
#[derive(Debug, Default)]
struct ValueSums {
    clicks: u64,
    visitors: u64,
}

/// Statistics by value, to which rows are added.
#[derive(Debug, Default)]
pub struct ValueStatistics {
    by_value: HashMap<String, ValueSums>,
    /// Clicks whose values are not counted apart.
    other: u64,
    day: Option<Date>,
    visitors_of_day: BTreeMap<String, SketchUnion>,
}

impl ValueStatistics {
    /// Adds the stored counts of a day. Rows of one day must follow each other.
    ///
    /// # Errors
    /// Returns an error if the counts, or the sketch of one of them, are damaged.
    pub fn add(&mut self, day: Date, counts: &[u8]) -> Result<(), DamagedStatistics> {
        if self.day != Some(day) {
            self.end_day();
            self.day = Some(day);
        }
        let damaged = |error: DamagedCounts| DamagedStatistics {
            day,
            reason: error.to_string(),
        };
        let counts = DimensionCounts::from_bytes(counts).map_err(damaged)?;
        for (value, count) in counts.iter() {
            if value == OTHER_VALUES {
                self.other += count.clicks;
                continue;
            }
            let sums = self.by_value.entry(value.to_owned()).or_default();
            sums.clicks += count.clicks;
            if let Some(sketch) = count.sketch().map_err(damaged)? {
                let union = self.visitors_of_day.entry(value.to_owned());
                union.or_default().add(&sketch);
            }
        }
        if self.by_value.len() > VALUES_IN_MEMORY_MAX {
            self.drop_rare_values();
        }
        Ok(())
    }

    /// Returns the `limit` values with the most clicks.
    pub fn top(mut self, limit: usize) -> Top<String> {
        self.end_day();
        let all = self.by_value.into_iter();
        let mut items: Vec<_> = all
            .map(|(key, sums)| TopItem {
                key,
                clicks: sums.clicks,
                visitors: sums.visitors,
            })
            .collect();
        items
            .sort_unstable_by(|a, b| (Reverse(a.clicks), &a.key).cmp(&(Reverse(b.clicks), &b.key)));
        let beyond = items.split_off(items.len().min(limit));
        let other = beyond.iter().map(|item| item.clicks).sum::<u64>() + self.other;
        Top { items, other }
    }

    /// Moves the clicks of the rarest values to those that belong to no item.
    fn drop_rare_values(&mut self) {
        let mut clicks: Vec<u64> = self.by_value.values().map(|sums| sums.clicks).collect();
        clicks.sort_unstable_by_key(|clicks| Reverse(*clicks));
        let clicks_min = clicks.get(VALUES_KEPT).copied().unwrap_or(0);
        let other = &mut self.other;
        self.by_value.retain(|value, sums| {
            let is_kept = sums.clicks > clicks_min || value == NO_VALUE;
            if !is_kept {
                *other += sums.clicks;
            }
            is_kept
        });
        self.visitors_of_day
            .retain(|value, _| self.by_value.contains_key(value));
    }

    /// Adds the estimates of the day that is over.
    fn end_day(&mut self) {
        for (value, union) in mem::take(&mut self.visitors_of_day) {
            if let Some(sums) = self.by_value.get_mut(&value) {
                sums.visitors += union.to_sketch().estimate();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use time::macros::date;

    use super::*;
    use crate::sketch::VisitorSketch;

    fn counts<const N: usize>(values: [(&str, u64, &[u64]); N]) -> Vec<u8> {
        let mut counts = DimensionCounts::default();
        for (value, clicks, visitors) in values {
            let count = counts.count_mut(value);
            count.clicks += clicks;
            let mut sketch = VisitorSketch::default();
            for visitor in visitors {
                sketch.insert(*visitor);
            }
            if !visitors.is_empty() {
                count.visitors = sketch.to_bytes();
            }
        }
        counts.to_bytes()
    }

    fn item(key: &str, clicks: u64, visitors: u64) -> TopItem<String> {
        TopItem {
            key: key.to_owned(),
            clicks,
            visitors,
        }
    }

    #[test]
    fn visitors_count_once_a_day_and_again_on_other_days() {
        let mut statistics = ValueStatistics::default();
        let (first, second) = (date!(2026 - 11 - 22), date!(2026 - 11 - 23));
        // Two partitions of one day have the same visitor.
        statistics
            .add(first, &counts([("DE", 2, &[1, 2])]))
            .unwrap();
        let other_partition = counts([("DE", 1, &[2]), ("FR", 7, &[])]);
        statistics.add(first, &other_partition).unwrap();
        statistics.add(second, &counts([("DE", 1, &[2])])).unwrap();
        let top = statistics.top(9);
        assert_eq!(top.items, [item("FR", 7, 0), item("DE", 4, 3)]);
        assert_eq!(top.other, 0);
    }

    #[test]
    fn values_beyond_the_limit_are_other() {
        let mut statistics = ValueStatistics::default();
        let values = counts([("b", 2, &[]), ("a", 2, &[]), ("*", 9, &[]), ("", 1, &[])]);
        statistics.add(date!(2026 - 11 - 23), &values).unwrap();
        let top = statistics.top(2);
        assert_eq!(top.items, [item("a", 2, 0), item("b", 2, 0)]);
        assert_eq!(top.other, 10);
    }

    #[test]
    fn rare_values_give_way_to_frequent_ones() {
        let mut statistics = ValueStatistics::default();
        let mut day = date!(2025 - 01 - 01);
        let days = 250;
        for number in 0..days {
            let mut counts = DimensionCounts::default();
            for host in 0..99 {
                counts.count_mut(&format!("{number}.{host}.example")).clicks += 1;
            }
            // Appears after the values that fill the memory, and is more frequent.
            counts
                .count_mut(if number < 120 { "early" } else { "late" })
                .clicks += 2;
            counts.count_mut(NO_VALUE).clicks += 1;
            statistics.add(day, &counts.to_bytes()).unwrap();
            assert!(statistics.by_value.len() <= VALUES_IN_MEMORY_MAX);
            day = day.next_day().unwrap();
        }
        let top = statistics.top(3);
        let expected = [
            item("late", 260, 0),
            item(NO_VALUE, 250, 0),
            item("early", 240, 0),
        ];
        assert_eq!(top.items, expected);
        assert_eq!(top.other, days * 99);
    }

    #[test]
    fn damaged_counts_are_refused_with_their_day() {
        let day = date!(2026 - 11 - 23);
        let mut statistics = ValueStatistics::default();
        let error = statistics.add(day, &[9]).unwrap_err();
        assert!(error.to_string().contains("2026-11-23"), "{error}");
        let mut with_bad_sketch = DimensionCounts::default();
        with_bad_sketch.count_mut("DE").visitors = vec![9, 9];
        assert!(statistics.add(day, &with_bad_sketch.to_bytes()).is_err());
    }
}
