//! Reads of the events of links, from the event store. Callers ask first if the account owns the link.
//!
//! An old instant of a link with many changes takes long to find: the index of a stream has no instants.

use linkledger_core::{
    clock::to_millisecond,
    envelope::RecordedEvent,
    event::{DecodeError, Subject},
    shard::Shard,
};
use linkledger_event_store::log::{StreamPart, read_stream_backwards};
use linkledger_http::problem::{Code, Problem};
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};

use crate::{
    read_model::links::LinkKey,
    slow_reads::{SlowReadAdvice, SlowReads},
};

const ADVICE: SlowReadAdvice = SlowReadAdvice {
    share_in_use: "Other histories of this account are being read: retry later, with fewer requests at a time.",
    too_slow: "The history took too long to read: retry later. With at, a later instant is found faster.",
};

/// Sessions that read events of links.
pub(crate) struct HistoryReads(SlowReads);

impl HistoryReads {
    /// Returns reads on the sessions of the pool, whose database has the event store.
    pub(crate) fn new(pool: PgPool) -> Self {
        Self(SlowReads::new(pool, ADVICE))
    }

    /// Reads the newest events of a link with versions lower than `before`, newest first.
    ///
    /// # Errors
    /// Returns the problems of [`SlowReads::read`].
    pub(crate) async fn events(
        &self,
        link: LinkKey,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<RecordedEvent>, Problem> {
        let mut part = newest(link, limit);
        part.before = before.unwrap_or(part.before);
        self.read(link, part).await
    }

    /// Reads the last event of a link that was recorded by the end of the millisecond of `at`.
    ///
    /// # Errors
    /// Returns the problems of [`SlowReads::read`].
    pub(crate) async fn last_event_at(
        &self,
        link: LinkKey,
        at: OffsetDateTime,
    ) -> Result<Option<RecordedEvent>, Problem> {
        let part = StreamPart {
            recorded_before: Some(to_millisecond(at) + Duration::MILLISECOND),
            ..newest(link, 1)
        };
        Ok(self.read(link, part).await?.pop())
    }

    async fn read(&self, link: LinkKey, part: StreamPart) -> Result<Vec<RecordedEvent>, Problem> {
        let pool = self.0.pool();
        let read = || read_stream_backwards(pool, &part);
        self.0.read(link.account_id, read).await
    }
}

fn newest(link: LinkKey, limit: i64) -> StreamPart {
    let shard = Shard::of(link.account_id);
    StreamPart::newest(shard, Subject::Link(link.link_id), limit)
}

/// Returns the problem of a link with an event that this release cannot read. The link may be changed or deleted, so
/// neither its state before nor 404 would be certain.
pub(crate) fn unreadable(link: LinkKey, error: &DecodeError) -> Problem {
    let error = error as &dyn std::error::Error;
    tracing::error!(link.id = %link.link_id, error, "cannot read the history of a link; a later release wrote an event");
    Problem::new(
        Code::ReadModelBehind,
        "A later release of the service has changed the link; retry in a second.",
    )
    .retry_after(1)
}
