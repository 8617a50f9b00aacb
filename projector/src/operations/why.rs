//! Report of `projector why`: the latest events of a link or an account, the state of each
//! projection, the rows of the read tables, and a comparison with the log.
//!
//! Every query finds rows by key, so an account with a million events takes no longer than another.

mod account;
mod destination;
mod link;
mod snapshot;
mod stream;
mod wording;

use std::collections::BTreeMap;

use anyhow::Context as _;
use linkledger_core::{
    envelope::RecordedEvent,
    event::Subject,
    event_store::{
        accounts::{self, StoredAccount},
        links,
        log::{self, StreamPart},
    },
    id::{AccountId, LinkId},
    shard::{Position, Shard},
    timestamp,
};
use serde::{
    Serialize,
    ser::{Error as _, SerializeStruct as _, Serializer},
};
use serde_json::value::RawValue;
use sqlx::PgPool;
use time::Date;

pub use self::{
    destination::{Destination, Stretch},
    link::LinkRecord,
};
use self::{
    snapshot::{RowsSnapshot, SubjectCheckpoint},
    stream::Stream,
};
use crate::read_models::{
    credits::lookup::{BalanceRow, EntryRow},
    links::lookup::LinkRow,
    redirects::lookup::RedirectRow,
    skipped::Skipped,
};

/// Request of a report.
#[derive(Debug, Clone, Copy)]
pub struct WhyRequest {
    /// Link or account.
    pub subject: Subject,
    /// Maximum number of events in the report.
    pub limit: u16,
    /// Version that the events of the report end before; `None` for the newest events.
    pub before: Option<i64>,
    /// Day of which the destinations of a link are reported.
    pub on: Option<Date>,
}

impl WhyRequest {
    /// Returns a request of up to `limit` of the newest events.
    pub const fn newest(subject: Subject, limit: u16) -> Self {
        Self {
            subject,
            limit,
            before: None,
            on: None,
        }
    }
}

/// Refusal: the subject does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnknownSubject {
    /// The log has no such link.
    #[error("{0} does not exist: the log has no such link")]
    Link(LinkId),
    /// There is no such account.
    #[error("{0} does not exist: there is no such account")]
    Account(AccountId),
}

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
    pub events: Vec<ShownEvent>,
    /// Row and explanation of each read model; empty after an error.
    pub projections: Vec<ProjectionWhy>,
    /// Error of the read tables or of the explanation, after which the rest of the report is complete.
    #[serde(skip)]
    pub error: Option<anyhow::Error>,
}

/// Event of the stream, with its state in each projection.
#[derive(Debug)]
pub struct ShownEvent {
    /// Event, as stored.
    pub recorded: RecordedEvent,
    /// State of the event in each projection; empty after an error.
    pub projections: BTreeMap<&'static str, EventState>,
}

impl ShownEvent {
    fn without_states(recorded: RecordedEvent) -> Self {
        Self {
            recorded,
            projections: BTreeMap::new(),
        }
    }
}

impl Serialize for ShownEvent {
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

/// Explains the rows of a link or an account.
///
/// # Errors
/// Returns [`UnknownSubject`], or an error if the log lacks an event or the database
/// fails.
pub async fn why(pool: &PgPool, request: WhyRequest) -> anyhow::Result<WhyReport> {
    let mut report = why_or_history(pool, request).await?;
    match report.error.take() {
        None => Ok(report),
        Some(error) => Err(error),
    }
}

/// Explains the rows of a link or an account. If the rows cannot be read or explained, the report
/// has the history of the log and [`WhyReport::error`].
///
/// # Errors
/// Returns [`UnknownSubject`], or an error if the event store cannot be read.
pub async fn why_or_history(pool: &PgPool, request: WhyRequest) -> anyhow::Result<WhyReport> {
    let subject = request.subject;
    let account_id = match subject {
        Subject::Link(link_id) => links::find_owner(pool, link_id)
            .await
            .context("cannot look the link up")?
            .ok_or(UnknownSubject::Link(link_id))?,
        Subject::Account(account_id) => account_id,
    };
    let shard = Shard::of(account_id);
    let newest_part = StreamPart::newest(shard, subject, request.limit.into());
    let newest = stream::read(pool, &newest_part).await?;
    let events = match request.before {
        Some(before) => {
            let part = StreamPart {
                before,
                ..newest_part
            };
            stream::read(pool, &part).await?
        }
        None => newest.clone(),
    };
    let link = match subject {
        Subject::Link(link_id) => {
            Some(LinkRecord::read(pool, shard, link_id, newest.first(), request.on).await?)
        }
        Subject::Account(_) => None,
    };
    let snapshot = RowsSnapshot::read(pool, account_id, link.as_ref(), &events)
        .await
        .context("cannot read the read tables");
    // Read after the snapshot: an account without newer events than the stream proves that the rows
    // have none either.
    let account = accounts::find(pool, account_id)
        .await
        .context("cannot look the account up")?
        .ok_or(UnknownSubject::Account(account_id))?;
    let end = log::end(pool)
        .await
        .context("cannot read the end of the log")?;
    let stream = Stream {
        pool,
        shard,
        subject,
        newest: &newest,
        log_epoch: end.epoch,
    };
    let explain = async {
        let snapshot = snapshot?;
        let mut projections = Vec::with_capacity(snapshot.checkpoints.len());
        for checkpoint in &snapshot.checkpoints {
            projections.push(match &link {
                Some(link) => link::explain(&stream, link, checkpoint).await?,
                None => account::explain(&stream, &account, checkpoint).await?,
            });
        }
        anyhow::Ok((projections, shown(pool, &events, &snapshot).await?))
    };
    let (projections, events, error) = match explain.await {
        Ok((projections, shown)) => (projections, shown, None),
        Err(error) => {
            let events = events.into_iter().map(ShownEvent::without_states);
            (Vec::new(), events.collect(), Some(error))
        }
    };
    Ok(WhyReport {
        subject: subject.to_string(),
        account_id,
        account,
        link,
        shard: shard.number(),
        log_epoch: end.epoch,
        head: end.heads[shard.index()],
        events_in_all: newest.first().map_or(0, |it| it.version),
        events,
        projections,
        error,
    })
}

/// Adds to each event its state in each projection.
async fn shown(
    pool: &PgPool,
    events: &[RecordedEvent],
    snapshot: &RowsSnapshot,
) -> anyhow::Result<Vec<ShownEvent>> {
    let stretches: Vec<_> = events
        .iter()
        .map(|it| (it.shard, it.position..=it.position))
        .collect();
    let skipped = Skipped::within(pool, &stretches)
        .await
        .context("cannot read the skipped events")?;
    let state = |event: &RecordedEvent, checkpoint: &SubjectCheckpoint| {
        if skipped.contains(checkpoint.projection, event) {
            EventState::Skipped
        } else if event.position > checkpoint.position {
            EventState::NotYet
        } else if snapshot.waits(checkpoint.projection, event.position) {
            EventState::Waits
        } else {
            EventState::Applied
        }
    };
    let shown = events.iter().map(|recorded| ShownEvent {
        projections: snapshot
            .checkpoints
            .iter()
            .map(|it| (it.projection.name(), state(recorded, it)))
            .collect(),
        recorded: recorded.clone(),
    });
    Ok(shown.collect())
}

impl ProjectionWhy {
    fn new(checkpoint: &SubjectCheckpoint, agrees: Option<bool>, why: String) -> Self {
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
