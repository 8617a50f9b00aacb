//! Report of `projector why`: the latest events of a link or an account, the state of each
//! projection, the rows of the read tables, and a comparison with the log.
//!
//! Every query finds rows by key, so an account with a million events takes no longer than another.

mod account;
mod destination;
mod link;
mod report;
mod snapshot;
mod stream;
mod wording;

use anyhow::Context as _;
use linkledger_core::{
    databases::Databases,
    envelope::RecordedEvent,
    event::Subject,
    event_store::{
        accounts::{self, StoredAccount},
        links,
        log::{self, StreamPart},
    },
    id::{AccountId, LinkId},
    shard::Shard,
};
use sqlx::PgPool;
use time::Date;

pub use self::{
    destination::{DestinationState, Stretch},
    link::LinkRecord,
    report::{EventState, ExplainedEvent, ParkedWhy, ProjectionWhy, ShownRow, WhyReport},
};
use self::{
    snapshot::{RowsSnapshot, SubjectCheckpoint},
    stream::SubjectStream,
};
use crate::read_models::skipped::Skipped;

/// Request of a report.
#[derive(Debug, Clone, Copy)]
pub struct WhyRequest {
    /// Link or account.
    pub subject: Subject,
    /// Maximum number of events in the report.
    pub limit: u16,
    /// Version above all events of the report; `None` for the newest events.
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

/// Explains the rows of a link or an account.
///
/// # Errors
/// Returns [`UnknownSubject`], or an error if the log lacks an event or the database
/// fails.
pub async fn why(databases: &Databases, request: WhyRequest) -> anyhow::Result<WhyReport> {
    let mut report = why_or_history(databases, request).await?;
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
pub async fn why_or_history(
    databases: &Databases,
    request: WhyRequest,
) -> anyhow::Result<WhyReport> {
    let pool = &databases.log;
    let subject = request.subject;
    let account_id = account_of(pool, subject).await?;
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
    let snapshot = RowsSnapshot::read(&databases.read, account_id, link.as_ref(), &events)
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
    let stream = SubjectStream {
        databases,
        shard,
        subject,
        newest: &newest,
        log_epoch: end.epoch,
    };
    let explained = match snapshot {
        Ok(snapshot) => {
            let of = (link.as_ref(), &account);
            explain(&stream, of, &events, &snapshot).await
        }
        Err(error) => Err(error),
    };
    let (projections, events, error) = match explained {
        Ok((projections, shown)) => (projections, shown, None),
        Err(error) => {
            let events = events.into_iter().map(ExplainedEvent::without_states);
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

/// Explains the rows of the snapshot, and adds to each event its state in each projection.
async fn explain(
    stream: &SubjectStream<'_>,
    (link, account): (Option<&LinkRecord>, &StoredAccount),
    events: &[RecordedEvent],
    snapshot: &RowsSnapshot,
) -> anyhow::Result<(Vec<ProjectionWhy>, Vec<ExplainedEvent>)> {
    let mut projections = Vec::with_capacity(snapshot.checkpoints.len());
    for checkpoint in &snapshot.checkpoints {
        projections.push(match link {
            Some(link) => link::explain(stream, link, checkpoint).await?,
            None => account::explain(stream, account, checkpoint).await?,
        });
    }
    let shown = shown(&stream.databases.read, events, snapshot).await?;
    Ok((projections, shown))
}

/// Returns the account itself, or the account that the link belongs to.
async fn account_of(pool: &PgPool, subject: Subject) -> anyhow::Result<AccountId> {
    match subject {
        Subject::Link(link_id) => links::find_owner(pool, link_id)
            .await
            .context("cannot look the link up")?
            .ok_or_else(|| UnknownSubject::Link(link_id).into()),
        Subject::Account(account_id) => Ok(account_id),
    }
}

/// Adds to each event its state in each projection.
async fn shown(
    read: &PgPool,
    events: &[RecordedEvent],
    snapshot: &RowsSnapshot,
) -> anyhow::Result<Vec<ExplainedEvent>> {
    let stretches: Vec<_> = events
        .iter()
        .map(|it| (it.shard, it.position..=it.position))
        .collect();
    let skipped = Skipped::within(read, &stretches)
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
    let shown = events.iter().map(|recorded| ExplainedEvent {
        projections: snapshot
            .checkpoints
            .iter()
            .map(|it| (it.projection.name(), state(recorded, it)))
            .collect(),
        recorded: recorded.clone(),
    });
    Ok(shown.collect())
}
