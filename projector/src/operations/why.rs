//! Why the read tables show what they show of a link or an account: its latest events, how far each
//! projection is with them, the rows that there are, and whether the log wants them so.
//!
//! Everything is found by key, so an account with a million events takes no longer than another.

mod account;
mod link;
mod moment;
mod rows;
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
    moment::{Moment, Standing},
    stream::Stream,
};
use crate::read_models::skipped::Skipped;

/// The answer.
#[derive(Debug, Serialize)]
pub struct Why {
    /// The link or the account.
    pub subject: String,
    /// Whose link it is, or the account itself.
    pub account_id: AccountId,
    /// Where its events are.
    pub shard: i16,
    /// The epoch of the log.
    pub log_epoch: i32,
    /// The end of the shard.
    pub head: Position,
    /// How many events its stream has.
    pub events_in_all: i64,
    /// The latest of them, the last one first.
    pub events: Vec<ShownEvent>,
    /// What each read model shows of it, and why.
    pub projections: Vec<ProjectionWhy>,
}

/// An event, and what has become of it.
#[derive(Debug, Serialize)]
pub struct ShownEvent {
    /// Its place in its stream.
    pub version: i64,
    /// Its place in the shard.
    pub position: Position,
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When it was decided.
    pub recorded_at: String,
    /// `operator`, or the API key that it was done with.
    pub actor: Option<String>,
    /// The request that did it.
    pub request_id: Option<String>,
    /// As it was written.
    pub data: Box<RawValue>,
    /// By projection.
    pub projections: BTreeMap<&'static str, Fate>,
}

/// What has become of an event in a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// The read model has what it wants of it.
    Applied,
    /// The checkpoint has not come to it.
    NotYet,
    /// Its account is parked, for this event or one before.
    Waits,
    /// An operator has decided to leave it out.
    Skipped,
}

impl Fate {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::NotYet => "not yet",
            Self::Waits => "waits",
            Self::Skipped => "skipped",
        }
    }
}

/// What a read model shows of the link or the account.
#[derive(Debug, Serialize)]
pub struct ProjectionWhy {
    /// Which one.
    pub projection: &'static str,
    /// The generation that is read.
    pub generation: i32,
    /// The checkpoint of the shard.
    pub position: Position,
    /// Since when an operator has been letting it wait.
    pub paused_at: Option<String>,
    /// Why the account is parked, if it is.
    pub parked: Option<ParkedWhy>,
    /// The row that there is.
    pub shows: Option<Shows>,
    /// Whether that is what the log wants, as far as this projection is; nothing where it is not
    /// judged, because an event was left out or the checkpoint is of another log.
    pub agrees: Option<bool>,
    /// All this in a sentence.
    pub why: String,
}

/// Why an account is parked.
#[derive(Debug, Clone, Serialize)]
pub struct ParkedWhy {
    /// The event that can't be applied.
    pub position: Position,
    /// Its type.
    pub event_type: String,
    /// Why it can't be, in words.
    pub detail: String,
    /// Since when.
    pub parked_at: String,
}

/// A row of a read table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Shows {
    /// Of `links`.
    Link(LinkRow),
    /// Of `redirects`.
    Redirect(RedirectRow),
    /// Of `credits`, for a link: what it cost.
    Entry(EntryRow),
    /// Of `credits`, for an account.
    Balance(BalanceRow),
    /// Of `redirects`, for an account: whether its links may not be followed.
    Stopped {
        /// Whether an operator has stopped them.
        redirects_stopped: bool,
    },
    /// Of `links`, for an account: how many it has, counted up to 1,000.
    Links {
        /// How many.
        links: i64,
    },
}

/// Finds out; of the subject's stream up to `limit` events are shown.
///
/// # Errors
/// When the log has no such link or account, or the database does not answer.
pub async fn why(pool: &PgPool, subject: Subject, limit: u16) -> anyhow::Result<Why> {
    let account_id = account_of(pool, subject).await?;
    let shard = Shard::of(account_id);
    let part = StreamPart::newest(shard, subject, limit.into());
    let events = log::read_stream_backwards(pool, &part).await;
    let events = events.context("can't read the log")?;
    let creation = match subject {
        Subject::Link(link_id) => Some(link::Creation::read(pool, shard, link_id).await?),
        Subject::Account(_) => None,
    };
    let moment = Moment::read(pool, account_id, creation.as_ref(), &events)
        .await
        .context("can't read the read tables")?;
    let end = log::end(pool)
        .await
        .context("can't read where the log ends")?;
    let stream = Stream {
        pool,
        shard,
        subject,
        newest: &events,
        log_epoch: end.epoch,
    };
    let mut projections = Vec::with_capacity(moment.standings.len());
    for standing in &moment.standings {
        projections.push(match &creation {
            Some(creation) => link::explain(&stream, creation, &moment, standing).await?,
            None => account::explain(&stream, account_id, &moment, standing).await?,
        });
    }
    let stretches: Vec<_> = events
        .iter()
        .map(|it| (it.shard, it.position..=it.position))
        .collect();
    let skipped = Skipped::within(pool, &stretches)
        .await
        .context("can't read what is left out")?;
    Ok(Why {
        subject: subject.to_string(),
        account_id,
        shard: shard.number(),
        log_epoch: end.epoch,
        head: end.heads[shard.index()],
        events_in_all: events.first().map_or(0, |it| it.version),
        events: events
            .iter()
            .map(|event| shown(event, &moment, &skipped))
            .collect::<anyhow::Result<_>>()?,
        projections,
    })
}

async fn account_of(pool: &PgPool, subject: Subject) -> anyhow::Result<AccountId> {
    match subject {
        Subject::Link(link_id) => links::find_owner(pool, link_id)
            .await
            .context("can't look the link up")?
            .with_context(|| format!("{link_id} is not there: the log has no such link")),
        Subject::Account(account_id) => {
            let account = accounts::find(pool, account_id).await;
            if account.context("can't look the account up")?.is_none() {
                bail!("{account_id} is not there: there is no such account");
            }
            Ok(account_id)
        }
    }
}

fn shown(event: &RecordedEvent, moment: &Moment, skipped: &Skipped) -> anyhow::Result<ShownEvent> {
    let fate = |standing: &Standing| {
        if skipped.contains(standing.projection, event) {
            Fate::Skipped
        } else if event.position > standing.position {
            Fate::NotYet
        } else if moment.waits(standing.projection, event.position) {
            Fate::Waits
        } else {
            Fate::Applied
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
        projections: moment
            .standings
            .iter()
            .map(|it| (it.projection.name(), fate(it)))
            .collect(),
    })
}

impl ProjectionWhy {
    fn new(standing: &Standing, shows: Option<Shows>, agrees: Option<bool>, why: String) -> Self {
        Self {
            projection: standing.projection.name(),
            generation: standing.generation,
            position: standing.position,
            paused_at: standing.paused_at.map(timestamp::format),
            parked: standing.parked.clone(),
            shows,
            agrees,
            why,
        }
    }
}
