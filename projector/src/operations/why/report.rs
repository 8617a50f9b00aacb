//! The report of `projector why`, as JSON and for the console.

use std::collections::BTreeMap;

use linkledger_core::{
    envelope::RecordedEvent, event_store::accounts::StoredAccount, id::AccountId, shard::Position,
    timestamp,
};
use serde::{
    Serialize,
    ser::{Error as _, SerializeStruct as _, Serializer},
};
use serde_json::value::RawValue;

use super::{link::LinkRecord, snapshot::SubjectCheckpoint};
use crate::read_models::{
    credits::lookup::{BalanceRow, EntryRow},
    links::lookup::LinkRow,
    redirects::lookup::RedirectRow,
};

/// Explanation of the rows of a link or an account.
#[derive(Debug, Serialize)]
pub struct WhyReport {
    /// Id of the link or of the account.
    pub subject: String,
    /// Account itself, or account that the link belongs to.
    pub account_id: AccountId,
    /// Account, as the log has it.
    #[serde(skip)]
    pub account: StoredAccount,
    /// Link, as the log has it; `None` if the subject is an account.
    #[serde(skip)]
    pub link: Option<LinkRecord>,
    /// Shard of the account.
    pub shard: i16,
    /// Epoch of the log.
    pub log_epoch: i32,
    /// End of the log in the shard.
    pub head: Position,
    /// Number of events in the stream.
    pub events_in_all: i64,
    /// Requested events of the stream, newest first.
    pub events: Vec<ExplainedEvent>,
    /// Row and explanation of each read model; empty after an error.
    pub projections: Vec<ProjectionWhy>,
    /// Error of the read tables or of the explanation, after which the rest of the report is complete.
    #[serde(skip)]
    pub error: Option<anyhow::Error>,
}

/// Event of the stream, with its state in each projection.
#[derive(Debug)]
pub struct ExplainedEvent {
    /// Event, as stored.
    pub recorded: RecordedEvent,
    /// State of the event in each projection; empty after an error.
    pub projections: BTreeMap<&'static str, EventState>,
}

impl ExplainedEvent {
    pub(super) fn without_states(recorded: RecordedEvent) -> Self {
        Self {
            recorded,
            projections: BTreeMap::new(),
        }
    }
}

impl Serialize for ExplainedEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = &self.recorded;
        let data: &RawValue = serde_json::from_str(&event.payload).map_err(S::Error::custom)?;
        let recorded_at = timestamp::format(event.recorded_at);
        let mut shown = serializer.serialize_struct("ShownEvent", 8)?;
        shown.serialize_field("version", &event.version)?;
        shown.serialize_field("position", &event.position)?;
        shown.serialize_field("type", &event.event_type)?;
        shown.serialize_field("recorded_at", &recorded_at)?;
        shown.serialize_field("actor", &event.metadata.actor)?;
        shown.serialize_field("request_id", &event.metadata.request_id)?;
        shown.serialize_field("data", data)?;
        shown.serialize_field("projections", &self.projections)?;
        shown.end()
    }
}

/// State of an event in a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EventState {
    /// The event is applied.
    Applied,
    /// The checkpoint is before the event.
    NotYet,
    /// The account is parked for this event or an earlier one.
    Waits,
    /// An operator skipped the event.
    Skipped,
}

impl EventState {
    /// Returns the name of the state for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::NotYet => "not yet",
            Self::Waits => "waits",
            Self::Skipped => "skipped",
        }
    }
}

/// Row of a read model for the link or the account, and its explanation.
#[derive(Debug, Serialize)]
pub struct ProjectionWhy {
    /// Name of the projection.
    pub projection: &'static str,
    /// Number of the served generation.
    pub generation: i32,
    /// Checkpoint of the shard.
    pub position: Position,
    /// Time since which the projection is paused.
    pub paused_at: Option<String>,
    /// Reason for which the account is parked, if parked.
    pub parked: Option<ParkedWhy>,
    /// Row of the read table, if there is one.
    pub shows: Option<ShownRow>,
    /// True if the row is what the log says up to the checkpoint; `None` if the row is not
    /// compared, because an event was skipped, the checkpoint belongs to another log, or only
    /// `verify` compares the read model.
    pub agrees: Option<bool>,
    /// Explanation in one sentence.
    pub why: String,
}

/// Reason for which an account is parked.
#[derive(Debug, Clone, Serialize)]
pub struct ParkedWhy {
    /// Position of the event that cannot be applied.
    pub position: Position,
    /// Type of the event that cannot be applied.
    pub event_type: String,
    /// Reason in words.
    pub detail: String,
    /// Time since which the account is parked.
    pub parked_at: String,
}

/// Row of a read table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum ShownRow {
    /// Row of `links`.
    Link(LinkRow),
    /// Row of `redirects`.
    Redirect(RedirectRow),
    /// Row of `credits` with the charge for a link.
    Entry(EntryRow),
    /// Row of `credits` for an account.
    Balance(BalanceRow),
    /// State of `redirects` for an account.
    Stopped {
        /// True if an operator stopped the redirects of the account.
        redirects_stopped: bool,
    },
    /// Number of links of an account in `links`.
    Links {
        /// Number of links, counted up to 1,000.
        links: i64,
    },
}

impl ProjectionWhy {
    pub(super) fn new(checkpoint: &SubjectCheckpoint, agrees: Option<bool>, why: String) -> Self {
        Self {
            projection: checkpoint.projection.name(),
            generation: checkpoint.generation,
            position: checkpoint.position,
            paused_at: checkpoint.paused_at.map(timestamp::format),
            parked: checkpoint.parked.clone(),
            shows: checkpoint.shows.clone(),
            agrees,
            why,
        }
    }
}
