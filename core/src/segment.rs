//! Sealed segments of the log: places, and the hash over the events and all segments
//! before.
//!
//! Auditors compute the same hash (`docs/sealed-segments.md`): never change the hashed bytes.

use sha2::{Digest as _, Sha256};

use crate::shard::{Position, Shard};

/// SHA-256 hash of a segment.
pub type SegmentHash = [u8; 32];

/// Previous hash of the first segment of a shard.
pub const NO_SEGMENT_BEFORE: SegmentHash = [0; 32];

/// Start of the hashed bytes: their type and the version of their format.
const TAG: &[u8] = b"linkledger segment 1\n";

/// Place of a segment: its shard, number, positions and epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentPlace {
    /// Shard of the segment.
    pub shard: Shard,
    /// Number of the segment within its shard, from 1, without gaps.
    pub number: i64,
    /// Position of the first event.
    pub first_position: Position,
    /// Position of the last event.
    pub last_position: Position,
    /// Epoch of the log when the segment was sealed. After a restore that lost events, the log has
    /// other events at the same positions; the epoch distinguishes their segments.
    pub epoch: i32,
}

/// A sealed segment, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Place of the segment.
    pub place: SegmentPlace,
    /// Hash of the segment's events and of the segment before.
    pub sha256: SegmentHash,
}

impl Segment {
    /// Returns the place of the segment after `before`; the new segment has `events` events. `before` is
    /// `None` for the first segment of a shard.
    pub fn next(before: Option<&Self>, shard: Shard, epoch: i32, events: i64) -> SegmentPlace {
        let (number, position) = before.map_or((0, 0), |before| {
            (before.place.number, before.place.last_position)
        });
        SegmentPlace {
            shard,
            number: number + 1,
            first_position: position + 1,
            last_position: position + events,
            epoch,
        }
    }
}

/// Computes the hash of a segment.
#[derive(Debug, Clone)]
pub struct SegmentHasher(Sha256);

impl SegmentHasher {
    /// Starts the hash with the segment's place and the hash of the segment before.
    pub fn new(place: &SegmentPlace, before: &SegmentHash) -> Self {
        let hasher = Sha256::new()
            .chain_update(TAG)
            .chain_update(place.epoch.to_be_bytes())
            .chain_update(place.shard.number().to_be_bytes())
            .chain_update(place.number.to_be_bytes())
            .chain_update(place.first_position.to_be_bytes())
            .chain_update(place.last_position.to_be_bytes())
            .chain_update(before);
        Self(hasher)
    }

    /// Adds events, in order, each as a row of Postgres's binary `COPY` format.
    pub fn update(&mut self, rows: &[u8]) {
        self.0.update(rows);
    }

    /// Returns the hash.
    pub fn finish(self) -> SegmentHash {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(place: &SegmentPlace, before: &SegmentHash, rows: &[u8]) -> SegmentHash {
        let mut hasher = SegmentHasher::new(place, before);
        hasher.update(rows);
        hasher.finish()
    }

    #[test]
    fn segments_are_consecutive_from_position_one() {
        let shard = Shard::new(3).unwrap();
        let place = Segment::next(None, shard, 1, 100);
        assert_eq!((place.number, place.first_position), (1, 1));
        let sha256 = hash(&place, &NO_SEGMENT_BEFORE, b"");
        let next = Segment::next(Some(&Segment { place, sha256 }), shard, 2, 50);
        assert_eq!((next.number, next.epoch), (2, 2));
        assert_eq!((next.first_position, next.last_position), (101, 150));
    }

    #[test]
    fn hash_covers_place_predecessor_and_events() {
        let place = SegmentPlace {
            shard: Shard::new(3).unwrap(),
            number: 2,
            first_position: 11,
            last_position: 20,
            epoch: 1,
        };
        let variants = [
            (place, NO_SEGMENT_BEFORE, "rows"),
            (
                SegmentPlace { epoch: 2, ..place },
                NO_SEGMENT_BEFORE,
                "rows",
            ),
            (
                SegmentPlace { number: 3, ..place },
                NO_SEGMENT_BEFORE,
                "rows",
            ),
            (
                SegmentPlace {
                    first_position: 10,
                    ..place
                },
                NO_SEGMENT_BEFORE,
                "rows",
            ),
            (
                SegmentPlace {
                    last_position: 21,
                    ..place
                },
                NO_SEGMENT_BEFORE,
                "rows",
            ),
            (
                SegmentPlace {
                    shard: Shard::new(4).unwrap(),
                    ..place
                },
                NO_SEGMENT_BEFORE,
                "rows",
            ),
            (place, [1; 32], "rows"),
            (place, NO_SEGMENT_BEFORE, "row"),
        ];
        let hashes: std::collections::HashSet<_> = variants
            .iter()
            .map(|(place, before, rows)| hash(place, before, rows.as_bytes()))
            .collect();
        assert_eq!(hashes.len(), variants.len());
    }
}
