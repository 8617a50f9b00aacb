//! Hashes of texts during a check, with random keys: a row with another text is missed once in billions of cases.

use std::hash::{BuildHasher as _, Hash, RandomState};

/// Hashes texts, so that accounts and keys take the same memory whatever their names.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Texts(RandomState);

/// Hash of a text, of lists of texts, or of their absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextHash(u32);

impl Texts {
    pub(super) fn hash(&self, text: impl Hash) -> TextHash {
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is one")]
        let half = self.0.hash_one(text) as u32;
        TextHash(half)
    }
}
