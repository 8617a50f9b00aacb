//! The registry of read models: each folder below holds the projection that keeps one of them, and
//! owns its tables.
//!
//! A projection only collects rows, event by event; they are written set by set, once per batch.

pub mod credits;
pub mod description;
pub mod links;
pub mod redirects;
pub mod skipped;

use std::fmt;

use clap::ValueEnum;
use linkledger_core::{envelope::RecordedEvent, event::Event};
use sqlx::PgConnection;

use self::{
    credits::projection::CreditRows,
    links::projection::LinkRows,
    redirects::{FoldedSlugs, RedirectChanges, projection::RedirectRows},
};

/// A kept read model; it has its own checkpoint in each shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Projection {
    /// Balance of an account and the entries of its ledger.
    Credits,
    /// List of an account's links, and a link by its id.
    Links,
    /// What is needed to follow a short link.
    Redirects,
}

/// One value per projection, by [`Projection::index`].
pub type PerProjection<T> = [T; Projection::ALL.len()];

impl Projection {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Credits, Self::Links, Self::Redirects];

    /// The name in SQL, logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Credits => "credits",
            Self::Links => "links",
            Self::Redirects => "redirects",
        }
    }

    /// The projection of that name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The place in a [`PerProjection`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An event of the log whose payload has been read, once for all projections.
#[derive(Debug, Clone)]
pub struct DecodedEvent {
    /// Its place and its circumstances.
    pub recorded: RecordedEvent,
    /// The fact.
    pub event: Event,
}

/// How the row of something new is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// There is none by that key, because rows and checkpoint move together: takes half of the
    /// time.
    Insert,
    /// There may be one, which is written over.
    Put,
}

/// The rows that a batch of events leads to, in all read models.
#[derive(Debug)]
pub struct Rows<'a> {
    slugs: &'a FoldedSlugs,
    credits: CreditRows,
    links: LinkRows<'a>,
    redirects: RedirectRows<'a>,
}

impl<'a> Rows<'a> {
    /// No rows yet; `slugs` are those that the events lack.
    pub fn new(slugs: &'a FoldedSlugs) -> Self {
        Self {
            slugs,
            credits: CreditRows::default(),
            links: LinkRows::default(),
            redirects: RedirectRows::default(),
        }
    }

    /// Adds what one event means to one projection.
    pub fn project(&mut self, projection: Projection, generation: i32, event: &'a DecodedEvent) {
        match projection {
            Projection::Credits => self.credits.project(generation, event),
            Projection::Links => self.links.project(generation, event),
            Projection::Redirects => self.redirects.project(generation, event, self.slugs),
        }
    }

    /// Writes them, sorted by key within each table.
    ///
    /// # Errors
    /// When the database does not answer, or refuses a row.
    pub async fn write_in_tx(&self, tx: &mut PgConnection, creation: Creation) -> sqlx::Result<()> {
        self.credits.write_in_tx(tx, creation).await?;
        self.links.write_in_tx(tx, creation).await?;
        self.redirects.write_in_tx(tx, creation).await
    }

    /// What redirect caches must hear of.
    pub fn redirect_changes(&self) -> &RedirectChanges {
        self.redirects.changes()
    }

    /// Returns the redirect changes.
    pub fn into_redirect_changes(self) -> RedirectChanges {
        self.redirects.into_changes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_projection_has_its_own_name_and_place() {
        for (index, projection) in Projection::ALL.into_iter().enumerate() {
            assert_eq!(projection.index(), index);
            assert_eq!(Projection::named(projection.name()), Some(projection));
            let typed = Projection::from_str(projection.name(), false);
            assert_eq!(typed, Ok(projection));
        }
        assert_eq!(Projection::named("clicks"), None);
    }
}
