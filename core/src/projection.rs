//! The projections: the read models that projector writes and query-api serves.

use std::fmt;

use serde::Serialize;

/// A projection keeps one read model. Each projection has a checkpoint of its own in each shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "service", derive(clap::ValueEnum))]
pub enum Projection {
    /// Balance of an account and the entries of its ledger.
    Credits,
    /// List of an account's links, and a link by its id.
    Links,
    /// Target of a short link, by its slug.
    Redirects,
}

/// One value per projection, by [`Projection::index`].
pub type PerProjection<T> = [T; Projection::ALL.len()];

impl Projection {
    /// All projections, by name: in the order of [`Projection::index`], and of `ORDER BY projection`
    /// in SQL.
    pub const ALL: [Self; 3] = [Self::Credits, Self::Links, Self::Redirects];

    /// Returns the name in SQL, logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Credits => "credits",
            Self::Links => "links",
            Self::Redirects => "redirects",
        }
    }

    /// Returns the projection with the given name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|projection| projection.name() == name)
    }

    /// Returns the index of the projection in a [`PerProjection`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projections_are_found_by_index_and_name() {
        for (index, projection) in Projection::ALL.into_iter().enumerate() {
            assert_eq!(projection.index(), index);
            assert_eq!(Projection::named(projection.name()), Some(projection));
            #[cfg(feature = "service")]
            {
                let parsed = clap::ValueEnum::from_str(projection.name(), false);
                assert_eq!(parsed, Ok(projection));
            }
        }
        assert_eq!(Projection::named("clicks"), None);
        assert!(Projection::ALL.is_sorted_by_key(|it| it.name()));
    }
}
