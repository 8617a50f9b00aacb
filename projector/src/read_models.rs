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
use linkledger_core::{databases::Databases, envelope::RecordedEvent, event::Event};
use sqlx::PgConnection;

use self::{
    credits::projection::CreditRows,
    description::{ReadModel, ReadTable},
    links::projection::LinkRows,
    redirects::{FoldedSlugs, RedirectChanges, projection::RedirectRows},
};

/// Returns the description of the read model that a projection keeps.
pub fn read_model(projection: Projection) -> &'static ReadModel {
    match projection {
        Projection::Credits => &credits::READ_MODEL,
        Projection::Links => &links::READ_MODEL,
        Projection::Redirects => &redirects::READ_MODEL,
    }
}

/// Returns the read tables that a projection keeps.
pub fn tables(projection: Projection) -> &'static [ReadTable] {
    read_model(projection).tables
}

/// An event of the log whose payload was decoded, once for all projections.
#[derive(Debug, Clone)]
pub struct DecodedEvent {
    /// Position, account, metadata and raw payload.
    pub recorded: RecordedEvent,
    /// Decoded payload.
    pub event: Event,
}

/// Statement that writes the row of a new link or entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// Inserts: no row has the key, because rows and checkpoint move together. Takes half of the
    /// time.
    Insert,
    /// Inserts, or overwrites the row of the same key.
    Put,
}

/// Rows that a batch of events results in, in all read models.
#[derive(Debug)]
pub struct Rows<'a> {
    credits: CreditRows,
    links: LinkRows<'a>,
    redirects: RedirectRows<'a>,
}

impl<'a> Rows<'a> {
    /// Projects the events, each for a projection and a generation. Reads the slugs that events of
    /// redirects lack.
    ///
    /// # Errors
    /// Returns an error if the database fails, or if the log lacks the creation of a link.
    pub async fn of(
        databases: &Databases,
        events: &[(Projection, i32, &'a DecodedEvent)],
    ) -> sqlx::Result<Self> {
        let of_redirects = events
            .iter()
            .filter(|(projection, ..)| *projection == Projection::Redirects);
        let slugs = FoldedSlugs::read(databases, of_redirects.map(|(.., event)| *event)).await?;
        let mut rows = Self {
            credits: CreditRows::default(),
            links: LinkRows::default(),
            redirects: RedirectRows::default(),
        };
        for (projection, generation, event) in events {
            match projection {
                Projection::Credits => rows.credits.project(*generation, event),
                Projection::Links => rows.links.project(*generation, event),
                Projection::Redirects => rows.redirects.project(*generation, event, &slugs),
            }
        }
        Ok(rows)
    }

    /// Writes the rows, sorted by key within each table.
    ///
    /// # Errors
    /// Returns an error if the database fails, or refuses a row.
    pub async fn write_in_tx(&self, tx: &mut PgConnection, creation: Creation) -> sqlx::Result<()> {
        self.credits.write_in_tx(tx, creation).await?;
        self.links.write_in_tx(tx, creation).await?;
        self.redirects.write_in_tx(tx, creation).await
    }

    /// Returns the changes that redirect caches follow.
    pub fn redirect_changes(&self) -> &RedirectChanges {
        self.redirects.changes()
    }

    /// Returns the redirect changes, with the slugs of all rows, those of creations included.
    pub fn into_redirect_changes_of_all_rows(self) -> RedirectChanges {
        self.redirects.into_changes_of_all_rows()
    }
}
