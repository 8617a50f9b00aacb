//! Keys that a look-up has found since the start of the process.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of words: 1 MiB, at which one of fifty unknown keys is taken for a found key after a
/// million found keys.
const WORDS: usize = 1 << 17;

/// Set of hashes of API keys, as a Bloom filter (Burton H. Bloom, 1970, "Space/Time Trade-offs in
/// Hash Coding with Allowable Errors"): a member is always recognised.
pub(super) struct FoundKeys {
    words: Box<[AtomicU64]>,
}

impl Default for FoundKeys {
    fn default() -> Self {
        let words = (0..WORDS).map(|_| AtomicU64::new(0));
        Self {
            words: words.collect(),
        }
    }
}

impl FoundKeys {
    pub(super) fn insert(&self, hash: &[u8; 32]) {
        for (word, bit) in bits(hash) {
            self.words[word].fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Returns true for every inserted hash, and for few others.
    pub(super) fn may_contain(&self, hash: &[u8; 32]) -> bool {
        bits(hash).all(|(word, bit)| self.words[word].load(Ordering::Relaxed) & bit != 0)
    }
}

/// Returns four bits, each as word and mask. A SHA-256 hash is uniform: its parts are hashes.
fn bits(hash: &[u8; 32]) -> impl Iterator<Item = (usize, u64)> + '_ {
    hash.chunks_exact(8).map(|part| {
        let word = u32::from_le_bytes([part[0], part[1], part[2], part[3]]);
        (word as usize % WORDS, 1 << (part[4] % 64))
    })
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn hash(number: u32) -> [u8; 32] {
        Sha256::digest(number.to_le_bytes()).into()
    }

    #[test]
    fn found_keys_are_recognised_and_few_others() {
        let found = FoundKeys::default();
        assert!(!found.may_contain(&hash(0)));
        for number in 0..100_000 {
            found.insert(&hash(number));
        }
        assert!((0..100_000).all(|number| found.may_contain(&hash(number))));
        let mistaken = (100_000..200_000).filter(|number| found.may_contain(&hash(*number)));
        assert!(mistaken.count() < 100);
    }
}
