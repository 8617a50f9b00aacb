//! Sketch of distinct visitors: HLL with 2^14 registers, standard error 0.8 %.
//!
//! Format: a version byte (1), the CRC-32 of the rest (4 bytes, little-endian), and the image of an HLL sketch of
//! the library `datasketches`, with registers of 4 bits: 4 bytes for each visitor up to about 1,500 visitors,
//! 8 KiB beyond.
//! The checksum is checked first, so that a damaged image never reaches the library.

use datasketches::hll::{HllSketch, HllType, HllUnion};

/// Version of the format, the first byte.
const VERSION: u8 = 1;
/// Bytes before the image: version and checksum.
const HEAD_LENGTH: usize = 5;
/// Logarithm of the number of registers.
const LG_REGISTERS: u8 = 14;
/// Registers of 4 bits.
const KIND: HllType = HllType::Hll4;

/// Estimates the number of distinct visitors from the hashes of all visits.
#[derive(Debug, Clone)]
pub struct VisitorSketch(HllSketch);

/// The bytes are no sketch of this format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the sketch of visitors is damaged: {0}")]
pub struct DamagedSketch(String);

impl Default for VisitorSketch {
    fn default() -> Self {
        Self(HllSketch::new(LG_REGISTERS, KIND).expect("an accepted number of registers"))
    }
}

/// Union of sketches, one after the other.
#[derive(Debug)]
pub struct SketchUnion(HllUnion);

impl Default for SketchUnion {
    fn default() -> Self {
        Self(HllUnion::new(LG_REGISTERS).expect("an accepted number of registers"))
    }
}

impl SketchUnion {
    /// Adds the visits of a sketch.
    pub fn add(&mut self, sketch: &VisitorSketch) {
        self.0.update(&sketch.0);
    }

    /// Returns the sketch of all visits.
    pub fn to_sketch(&self) -> VisitorSketch {
        VisitorSketch(self.0.to_sketch(KIND))
    }
}

impl VisitorSketch {
    /// Adds a visit by the hash of the visitor. A visitor counts once.
    pub fn insert(&mut self, visitor: u64) {
        self.0.update(visitor);
    }

    /// Returns the estimated number of distinct visitors. Depends only on the set of visitors, not on their
    /// order and not on the unions in between.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the estimate is rounded, finite and not negative"
    )]
    pub fn estimate(&self) -> u64 {
        self.0.composite_estimate().round() as u64
    }

    /// Returns the sketch in the stored format.
    pub fn to_bytes(&self) -> Vec<u8> {
        let image = self.0.serialize();
        let mut bytes = Vec::with_capacity(HEAD_LENGTH + image.len());
        bytes.push(VERSION);
        bytes.extend(crc32fast::hash(&image).to_le_bytes());
        bytes.extend(image);
        bytes
    }

    /// Reads the stored format.
    ///
    /// # Errors
    /// Returns an error if the version is unknown, or the bytes are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DamagedSketch> {
        let damaged = |why: &str| DamagedSketch(why.to_owned());
        let (head, image) = bytes
            .split_at_checked(HEAD_LENGTH)
            .ok_or_else(|| damaged("too short"))?;
        if head[0] != VERSION {
            return Err(DamagedSketch(format!("unknown version {}", head[0])));
        }
        if head[1..] != crc32fast::hash(image).to_le_bytes() {
            return Err(damaged("wrong checksum"));
        }
        let sketch =
            HllSketch::deserialize(image).map_err(|error| DamagedSketch(error.to_string()))?;
        if sketch.lg_config_k() != LG_REGISTERS || sketch.target_type() != KIND {
            return Err(damaged("another number or kind of registers"));
        }
        Ok(Self(sketch))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns pseudo-random hashes: counters under a finalizer that mixes all bits.
    fn hashes(seed: u64, count: u64) -> impl Iterator<Item = u64> {
        (1..=count).map(move |index| {
            let mut hash = seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            hash ^ (hash >> 31)
        })
    }

    fn sketch(visitors: impl IntoIterator<Item = u64>) -> VisitorSketch {
        let mut sketch = VisitorSketch::default();
        visitors
            .into_iter()
            .for_each(|visitor| sketch.insert(visitor));
        sketch
    }

    fn union<const N: usize>(sketches: [&VisitorSketch; N]) -> VisitorSketch {
        let mut union = SketchUnion::default();
        for sketch in sketches {
            union.add(sketch);
        }
        union.to_sketch()
    }

    #[test]
    fn estimates_are_within_two_percent() {
        for count in [0, 1, 100, 1_500, 1_600, 10_000, 60_000, 1_000_000_u64] {
            for seed in 0..3 {
                let sketch = sketch(hashes(seed, count));
                let stored = VisitorSketch::from_bytes(&sketch.to_bytes()).unwrap();
                assert_eq!(stored.estimate(), sketch.estimate());
                let error = sketch.estimate().abs_diff(count);
                assert!(error * 50 <= count, "{count}: {}", sketch.estimate());
            }
        }
    }

    #[test]
    fn few_visitors_need_few_bytes() {
        for (count, bytes_max) in [
            (0, 16),
            (1, 20),
            (100, 430),
            (1_500, 6_100),
            (10_000, 8_300),
        ] {
            let bytes = sketch(hashes(1, count)).to_bytes();
            assert!(bytes.len() <= bytes_max, "{count}: {}", bytes.len());
        }
    }

    #[test]
    fn repeated_visitor_changes_no_byte() {
        for count in [5, 500, 5_000] {
            let mut sketch = sketch(hashes(1, count));
            let before = sketch.to_bytes();
            hashes(1, count).for_each(|visitor| sketch.insert(visitor));
            assert_eq!(sketch.to_bytes(), before);
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        for count in [0, 5, 500, 5_000] {
            let bytes = sketch(hashes(1, count)).to_bytes();
            for index in (0..bytes.len()).step_by(bytes.len() / 40 + 1) {
                let mut damaged = bytes.clone();
                damaged[index] ^= 0x10;
                assert!(VisitorSketch::from_bytes(&damaged).is_err());
                assert!(VisitorSketch::from_bytes(&bytes[..index]).is_err());
            }
        }
    }

    #[test]
    fn sketch_with_other_registers_is_refused() {
        let image = HllSketch::new(12, KIND).unwrap().serialize();
        let mut bytes = vec![VERSION];
        bytes.extend(crc32fast::hash(&image).to_le_bytes());
        bytes.extend(image);
        assert!(VisitorSketch::from_bytes(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused(bytes: Vec<u8>) {
            prop_assert!(VisitorSketch::from_bytes(&bytes).is_err());
        }

        #[test]
        fn union_is_associative_and_commutative(counts in [0_u64..4_000, 0_u64..4_000, 0_u64..4_000]) {
            // Overlapping ranges of one sequence.
            let [a, b, c] = [0, 1_000, 2_000_u64].map(|start| {
                let count = counts[usize::try_from(start / 1_000).unwrap()];
                sketch(hashes(7, start + count).skip(usize::try_from(start).unwrap()))
            });
            let left = union([&union([&a, &b]), &c]);
            let right = union([&union([&c, &b]), &a]);
            let stored = VisitorSketch::from_bytes(&right.to_bytes()).unwrap();
            prop_assert_eq!(left.estimate(), right.estimate());
            prop_assert_eq!(left.estimate(), union([&a, &b, &c]).estimate());
            prop_assert_eq!(left.estimate(), union([&stored, &a]).estimate());
        }
    }
}
