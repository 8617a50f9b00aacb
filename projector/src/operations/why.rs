//! Report of `projector why`: the latest events of a link or an account, the state of each
//! projection, the rows of the read tables, and a comparison with the log.
//!
//! Every query finds rows by key, so an account with a million events takes no longer than another.

mod account;
mod link;
mod rows;
mod snapshot;
mod stream;
mod wording;

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use linkledger_core::{
    envelope::RecordedEvent,
    event::Subject,
    event_store::{
        accounts, links,
        log::{self, StreamPart},
    },
    id::AccountId,
    shard::{Position, Shard},
    timestamp,
};
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::PgPool;

pub use self::rows::{BalanceRow, EntryRow, LinkRow, RedirectRow};
use self::{
    snapshot::{RowsSnapshot, SubjectCheckpoint},
    stream::Stream,
};
use crate::read_models::skipped::Skipped;

/// Explanation of the rows of a link or an account.
#[derive(Debug, Serialize)]
pub struct WhyReport {
    /// Id of the link or of the account.
    pub subject: String,
    /// Account itself, or account that the link belongs to.
    pub account_id: AccountId,
    /// Shard of the account.
    pub shard: i16,
    /// Epoch of the log.
    pub log_epoch: i32,
    /// End of the log in the shard.
    pub head: Position,
    /// Number of events in the stream.
    pub events_in_all: i64,
    /// Latest events of the stream, newest first.
    pub events: Vec<ShownEvent>,
    /// Row and explanation of each read model.
    pub projections: Vec<ProjectionWhy>,
}

/// Event of the stream, with its state in each projection.
#[derive(Debug, Serialize)]
pub struct ShownEvent {
    /// Version of the stream.
    pub version: i64,
    /// Position in the shard.
    pub position: Position,
    /// Type of the event.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Time of the event.
    pub recorded_at: String,
    /// `operator`, or the API key of the request.
    pub actor: Option<String>,
    /// Id of the request.
    pub request_id: Option<String>,
    /// Payload as stored.
    pub data: Box<RawValue>,
    /// State of the event in each projection.
    pub projections: BTreeMap<&'static str, EventState>,
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
    /// Number of the generation that is read.
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
    /// compared, because an event was skipped or the checkpoint belongs to another log.
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

/// Explains the rows of the subject, with up to `limit` events of its stream.
///
/// # Errors
/// Returns an error if the log has no such link or account, or the database does not answer.
pub async fn why(pool: &PgPool, subject: Subject, limit: u16) -> anyhow::Result<WhyReport> {
    let account_id = account_of(pool, subject).await?;
    let shard = Shard::of(account_id);
    let part = StreamPart::newest(shard, subject, limit.into());
    let events = log::read_stream_backwards(pool, &part).await;
    let events = events.context("cannot read the log")?;
    let creation = match subject {
        Subject::Link(link_id) => Some(link::Creation::read(pool, shard, link_id).await?),
        Subject::Account(_) => None,
    };
    let snapshot = RowsSnapshot::read(pool, account_id, creation.as_ref(), &events)
        .await
        .context("cannot read the read tables")?;
    let end = log::end(pool)
        .await
        .context("cannot read the end of the log")?;
    let stream = Stream {
        pool,
        shard,
        subject,
        newest: &events,
        log_epoch: end.epoch,
    };
    let mut projections = Vec::with_capacity(snapshot.checkpoints.len());
    for checkpoint in &snapshot.checkpoints {
        projections.push(match &creation {
            Some(creation) => link::explain(&stream, creation, &snapshot, checkpoint).await?,
            None => account::explain(&stream, account_id, &snapshot, checkpoint).await?,
        });
    }
    let stretches: Vec<_> = events
        .iter()
        .map(|it| (it.shard, it.position..=it.position))
        .collect();
    let skipped = Skipped::within(pool, &stretches)
        .await
        .context("cannot read the skipped events")?;
    Ok(WhyReport {
        subject: subject.to_string(),
        account_id,
        shard: shard.number(),
        log_epoch: end.epoch,
        head: end.heads[shard.index()],
        events_in_all: events.first().map_or(0, |it| it.version),
        events: events
            .iter()
            .map(|event| shown(event, &snapshot, &skipped))
            .collect::<anyhow::Result<_>>()?,
        projections,
    })
}

async fn account_of(pool: &PgPool, subject: Subject) -> anyhow::Result<AccountId> {
    match subject {
        Subject::Link(link_id) => links::find_owner(pool, link_id)
            .await
            .context("cannot look the link up")?
            .with_context(|| format!("{link_id} does not exist: the log has no such link")),
        Subject::Account(account_id) => {
            let account = accounts::find(pool, account_id).await;
            if account.context("cannot look the account up")?.is_none() {
                bail!("{account_id} does not exist: there is no such account");
            }
            Ok(account_id)
        }
    }
}

fn shown(
    event: &RecordedEvent,
    snapshot: &RowsSnapshot,
    skipped: &Skipped,
) -> anyhow::Result<ShownEvent> {
    let state = |checkpoint: &SubjectCheckpoint| {
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
    let data = RawValue::from_string(event.payload.clone());
    Ok(ShownEvent {
        version: event.version,
        position: event.position,
        event_type: event.event_type.clone(),
        recorded_at: timestamp::format(event.recorded_at),
        actor: event.metadata.actor.clone(),
        request_id: event.metadata.request_id.clone(),
        data: data.context("a payload is not JSON")?,
        projections: snapshot
            .checkpoints
            .iter()
            .map(|it| (it.projection.name(), state(it)))
            .collect(),
    })
}

impl ProjectionWhy {
    fn new(
        checkpoint: &SubjectCheckpoint,
        shows: Option<ShownRow>,
        agrees: Option<bool>,
        why: String,
    ) -> Self {
        Self {
            projection: checkpoint.projection.name(),
            generation: checkpoint.generation,
            position: checkpoint.position,
            paused_at: checkpoint.paused_at.map(timestamp::format),
            parked: checkpoint.parked.clone(),
            shows,
            agrees,
            why,
        }
    }
}
