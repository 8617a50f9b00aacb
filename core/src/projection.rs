//! The projections: the read models that projector writes and query-api serves.

use serde::Serialize;

crate::named_enum! {
    /// A projection keeps one read model. Each projection has a checkpoint of its own in each shard.
    ///
    /// The variants are in the order of [`Projection::index`], and of `ORDER BY projection` in SQL.
    #[derive(PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Projection {
        /// Balance of an account and the entries of its ledger.
        Credits = "credits",
        /// List of an account's links, and a link by its id.
        Links = "links",
        /// Target of a short link, by its slug.
        Redirects = "redirects",
    }
}

/// One value per projection, by [`Projection::index`].
pub type PerProjection<T> = [T; Projection::ALL.len()];

impl Projection {
    /// Returns the index of the projection in a [`PerProjection`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projections_are_found_by_index_and_name() {
        for (index, projection) in Projection::ALL.into_iter().enumerate() {
            assert_eq!(projection.index(), index);
            assert_eq!(Projection::of_name(projection.name()), Some(projection));
        }
        assert_eq!(Projection::of_name("clicks"), None);
        assert!(Projection::ALL.is_sorted_by_key(|it| it.name()));
    }
}
