//! Human clicks and visitors by value of one dimension, in the stored format.
//!
//! The counts of a link, a day and a dimension are one cell. With a row for each value, a click would write some five
//! rows for its link and five for its account.
//!
//! Format: a version byte (1), then a list of (value, clicks, sketch of the visitors) in the order of the values,
//! encoded by [postcard](https://postcard.jamesmunns.com). The sketch is empty for no visitors, and has the format
//! of [`super::sketch`] otherwise.

use std::collections::BTreeMap;

use super::{
    dimension::{NO_VALUE, OTHER_VALUES, VALUES_MAX},
    sketch::VisitorSketch,
};

/// Version of the format, the first byte.
const VERSION: u8 = 1;

/// Counts by value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DimensionCounts(BTreeMap<String, StoredCount>);

/// Clicks and visitors of one value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredCount {
    /// Human clicks.
    pub clicks: u64,
    /// Sketch of distinct visitors, as stored; empty for none.
    pub visitors: Vec<u8>,
}

/// The bytes are no counts of this format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the counts of a dimension are damaged: {0}")]
pub struct DamagedCounts(String);

/// Value, clicks and sketch.
type Entry<'a> = (&'a str, u64, &'a [u8]);

impl DimensionCounts {
    /// Returns the value under which a click with this value is counted: values beyond the first [`VALUES_MAX`] are
    /// counted together as [`OTHER_VALUES`].
    pub fn key_of<'v>(&self, value: &'v str) -> &'v str {
        let is_full = || {
            let values = self.0.keys();
            values.filter(|value| is_counted_apart(value)).count() >= VALUES_MAX
        };
        if is_counted_apart(value) && !self.0.contains_key(value) && is_full() {
            OTHER_VALUES
        } else {
            value
        }
    }

    /// Returns the count of a key.
    pub fn count_mut(&mut self, key: &str) -> &mut StoredCount {
        self.0.entry(key.to_owned()).or_default()
    }

    /// Returns the values with their counts, in the order of the values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &StoredCount)> {
        self.0.iter().map(|(value, count)| (value.as_str(), count))
    }

    /// Returns the counts in the stored format.
    ///
    /// # Panics
    /// Never panics: there is no value that the format cannot have.
    pub fn to_bytes(&self) -> Vec<u8> {
        let entries = self.iter();
        let entries: Vec<Entry<'_>> = entries
            .map(|(value, count)| (value, count.clicks, &*count.visitors))
            .collect();
        postcard::to_extend(&entries, vec![VERSION]).expect("memory grows")
    }

    /// Reads the stored format.
    ///
    /// # Errors
    /// Returns an error if the version is unknown, or the bytes are damaged. Sketches are not looked at.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DamagedCounts> {
        let (version, entries) = bytes
            .split_first()
            .ok_or_else(|| DamagedCounts("empty".to_owned()))?;
        if *version != VERSION {
            return Err(DamagedCounts(format!("unknown version {version}")));
        }
        let (entries, rest): (Vec<Entry<'_>>, _) =
            postcard::take_from_bytes(entries).map_err(|error| DamagedCounts(error.to_string()))?;
        if !rest.is_empty() {
            return Err(DamagedCounts("too long".to_owned()));
        }
        let entries = entries.into_iter().map(|(value, clicks, visitors)| {
            let visitors = visitors.to_vec();
            (value.to_owned(), StoredCount { clicks, visitors })
        });
        Ok(Self(entries.collect()))
    }
}

impl StoredCount {
    /// Returns the sketch of the visitors; `None` for no visitors.
    ///
    /// # Errors
    /// Returns an error if the sketch is damaged.
    pub fn sketch(&self) -> Result<Option<VisitorSketch>, DamagedCounts> {
        if self.visitors.is_empty() {
            return Ok(None);
        }
        let sketch = VisitorSketch::from_bytes(&self.visitors);
        sketch
            .map(Some)
            .map_err(|error| DamagedCounts(error.to_string()))
    }
}

fn is_counted_apart(value: &str) -> bool {
    value != NO_VALUE && value != OTHER_VALUES
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(values: impl IntoIterator<Item = (String, u64, Vec<u8>)>) -> DimensionCounts {
        let counts = values.into_iter();
        DimensionCounts(
            counts
                .map(|(value, clicks, visitors)| (value, StoredCount { clicks, visitors }))
                .collect(),
        )
    }

    #[test]
    fn first_hundred_values_are_counted_apart() {
        let mut counts = DimensionCounts::default();
        // Later values sort before earlier ones.
        let hosts = (0..150).map(|index| format!("{:03}.example", 999 - index));
        for value in hosts.chain([String::new(), "999.example".to_owned()]) {
            let key = counts.key_of(&value);
            counts.count_mut(key).clicks += 1;
        }
        let clicks = |value| counts.0.get(value).map(|count| count.clicks);
        assert_eq!(counts.0.len(), 102);
        assert_eq!(clicks("999.example"), Some(2));
        assert_eq!(clicks("900.example"), Some(1));
        assert_eq!(clicks("899.example"), None);
        assert_eq!(clicks(OTHER_VALUES), Some(50));
        assert_eq!(clicks(NO_VALUE), Some(1));
    }

    #[test]
    fn format_of_version_one_stays_readable() {
        let counts = counts([
            (String::new(), 300, vec![]),
            ("DE".to_owned(), 2, vec![7, 8]),
        ]);
        let bytes = [1, 2, 0, 0xac, 2, 0, 2, b'D', b'E', 2, 2, 7, 8];
        assert_eq!(counts.to_bytes(), bytes);
        assert_eq!(DimensionCounts::from_bytes(&bytes), Ok(counts));
        assert!(DimensionCounts::from_bytes(&[2, 0]).is_err());
        assert!(DimensionCounts::from_bytes(&[]).is_err());
    }

    proptest! {
        #[test]
        fn stored_counts_are_read_back(
            values in proptest::collection::vec((".{0,9}", any::<u64>(), any::<Vec<u8>>()), 0..9)
        ) {
            let counts = counts(values);
            let bytes = counts.to_bytes();
            prop_assert_eq!(DimensionCounts::from_bytes(&bytes), Ok(counts));
            for length in 0..bytes.len() {
                prop_assert!(DimensionCounts::from_bytes(&bytes[..length]).is_err());
            }
        }

        #[test]
        fn arbitrary_bytes_cause_no_panic(bytes: Vec<u8>) {
            let counts = DimensionCounts::from_bytes(&bytes);
            if let Ok(counts) = counts {
                prop_assert!(counts.0.len() <= bytes.len());
            }
        }
    }
}
