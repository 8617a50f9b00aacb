//! Shards and positions: the place of an event in the log.

use std::{fmt, str::FromStr};

use serde::Serialize;

use crate::id::AccountId;

/// Number of shards of the log, and of partitions of the topic. Never changes during the life of a
/// log.
pub const SHARD_COUNT: u8 = 16;

/// One of the [`SHARD_COUNT`] parts of the log. Its number equals the number of the Kafka
/// partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Shard(u8);

impl Shard {
    /// Returns the shard of an account: the partition that Kafka's default partitioner chooses.
    /// Never changes.
    pub fn of(account_id: AccountId) -> Self {
        let hash = murmur2(account_id.to_string().as_bytes()) & 0x7fff_ffff;
        Self(u8::try_from(hash % u32::from(SHARD_COUNT)).expect("less than SHARD_COUNT"))
    }

    /// Returns the shard with this number, if it exists.
    pub fn new(number: i64) -> Option<Self> {
        u8::try_from(number)
            .ok()
            .filter(|number| *number < SHARD_COUNT)
            .map(Self)
    }

    /// Returns all shards, in the order in which their counters are locked.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SHARD_COUNT).map(Self)
    }

    /// Returns the number, as stored in SQL (`smallint`).
    pub fn number(self) -> i16 {
        i16::from(self.0)
    }

    /// Returns the number as an index into an array of [`SHARD_COUNT`] elements.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Parses the number of a shard.
impl FromStr for Shard {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shard = text.parse().ok().and_then(Self::new);
        shard.ok_or("give the number of a shard, from 0 to 15")
    }
}

/// Position of an event in its shard, from 1, without gaps; 0 is the place before the first event.
pub type Position = i64;

/// Murmur2 with the seed and byte order of Kafka's Java client.
pub fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(data.len()).expect("keys are short");
    let mut hash = 0x9747_b28c ^ length;
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (index, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur2_equals_kafkas_java_client() {
        // Vectors of Apache Kafka's own unit test of its murmur2.
        for (text, expected) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), expected, "{text}");
        }
    }

    #[test]
    fn only_existing_shards_have_a_number() {
        assert_eq!(Shard::new(15).map(Shard::number), Some(15));
        assert_eq!(Shard::new(16), None);
        assert_eq!(Shard::new(-1), None);
        assert_eq!(Shard::all().count(), usize::from(SHARD_COUNT));
    }
}
