//! The registry of read models: each folder below holds the projection that keeps one of them, and
//! owns its tables.
//!
//! A projection only collects rows, event by event; they are written set by set, once per batch.

pub mod credits;
pub mod description;
pub mod links;
pub mod redirects;
pub mod skipped;

pub use linkledger_core::projection::{PerProjection, Projection};
use linkledger_core::{envelope::RecordedEvent, event::Event};
use sqlx::PgConnection;

use self::{
    credits::projection::CreditRows,
    links::projection::LinkRows,
    redirects::{FoldedSlugs, RedirectChanges, projection::RedirectRows},
};

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

    /// Returns the redirect changes, with the slugs of all rows, those of creations included.
    pub fn into_redirect_changes_of_all_rows(self) -> RedirectChanges {
        self.redirects.into_changes_of_all_rows()
    }
}
