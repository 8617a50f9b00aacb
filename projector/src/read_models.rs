//! The registry of read models: each folder below holds the projection that keeps one of them, and
//! owns its tables.
//!
//! A projection only collects rows, event by event; they are written set by set, once per batch. The
//! rows of a link follow from its state after its last event alone, so a row that lacks an event is
//! right again after the next one.

pub mod credits;
pub mod description;
pub mod links;
pub mod redirects;
pub mod skipped;

pub use linkledger_core::projection::{PerProjection, Projection};
use linkledger_core::{
    account::AccountEvent,
    api_key::ApiKeyEvent,
    credits::CreditsEvent,
    envelope::RecordedEvent,
    event::{DecodeError, Event},
    link::LinkState,
    observation::ObservationEvent,
    webhook::WebhookEvent,
};
use sqlx::PgConnection;

use self::{
    credits::projection::CreditRows,
    description::ReadTable,
    links::projection::LinkRows,
    redirects::{RedirectChanges, projection::RedirectRows},
};

/// Returns the read tables that a projection keeps, which the SQL function
/// `read_model.projection_tables` lists too.
pub fn tables(projection: Projection) -> &'static [ReadTable] {
    match projection {
        Projection::Credits => credits::TABLES,
        Projection::Links => links::TABLES,
        Projection::Redirects => redirects::TABLES,
    }
}

/// An event of the log that was decoded, once for all projections.
#[derive(Debug, Clone)]
pub struct DecodedEvent {
    /// Position, account, metadata and raw payload.
    pub recorded: RecordedEvent,
    /// Content for the projections.
    pub content: EventContent,
}

/// Content of an event, as far as rows follow from it.
#[derive(Debug, Clone)]
pub enum EventContent {
    /// State of the link after an event of the link.
    Link(LinkState),
    /// Event of an account itself.
    Account(AccountEvent),
    /// Event of an API key.
    ApiKey(ApiKeyEvent),
    /// Event of a webhook.
    Webhook(WebhookEvent),
    /// Fact about links that no command caused.
    Observation(ObservationEvent),
    /// Event of an account's credits.
    Credits(CreditsEvent),
}

impl EventContent {
    /// Returns the content of an event.
    ///
    /// # Errors
    /// Returns [`DecodeError`] if this release cannot read the payload, or the state of the link.
    pub fn of(recorded: &RecordedEvent) -> Result<Self, DecodeError> {
        Ok(match recorded.decode()? {
            Event::Link(event) => Self::Link(recorded.state_after(&event)?),
            Event::Account(event) => Self::Account(event),
            Event::ApiKey(event) => Self::ApiKey(event),
            Event::Webhook(event) => Self::Webhook(event),
            Event::Observation(event) => Self::Observation(event),
            Event::Credits(event) => Self::Credits(event),
        })
    }

    /// Returns about how many rows follow from the event, of all projections.
    pub fn rows(&self) -> usize {
        match self {
            Self::Link(state) => {
                let tags = state.details.tags.as_ref();
                2 + tags.map_or(0, |tags| tags.as_slice().len())
            }
            Self::Account(_)
            | Self::ApiKey(_)
            | Self::Webhook(_)
            | Self::Observation(_)
            | Self::Credits(_) => 2,
        }
    }
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
#[derive(Debug, Default)]
pub struct Rows<'a> {
    credits: CreditRows<'a>,
    links: LinkRows<'a>,
    redirects: RedirectRows<'a>,
}

impl<'a> Rows<'a> {
    /// Projects the events, each for a projection and a generation, in the order of their positions.
    pub fn of(events: &[(Projection, i32, &'a DecodedEvent)]) -> Self {
        let mut rows = Self::default();
        for (projection, generation, event) in events {
            match projection {
                Projection::Credits => rows.credits.project(*generation, event),
                Projection::Links => rows.links.project(*generation, event),
                Projection::Redirects => rows.redirects.project(*generation, event),
            }
        }
        rows
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
        &self.redirects.changes
    }
}
