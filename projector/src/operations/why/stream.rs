//! Stream of a link or an account, with a search by position.

use anyhow::Context as _;
use linkledger_core::{
    databases::Databases,
    envelope::RecordedEvent,
    event::Subject,
    event_store::log::{self, StreamPart},
    shard::{Position, Shard},
};
use sqlx::PgPool;

/// Stream of the subject, with its newest events.
pub(super) struct SubjectStream<'a> {
    pub(super) databases: &'a Databases,
    pub(super) shard: Shard,
    pub(super) subject: Subject,
    pub(super) newest: &'a [RecordedEvent],
    pub(super) log_epoch: i32,
}

impl SubjectStream<'_> {
    /// Returns the last event at or before a position of the shard. Events before the newest ones
    /// are found by binary search, because positions grow with versions.
    pub(super) async fn last_up_to(
        &self,
        position: Position,
    ) -> anyhow::Result<Option<RecordedEvent>> {
        if let Some(event) = self.newest.iter().find(|it| it.position <= position) {
            return Ok(Some(event.clone()));
        }
        let mut found = None;
        // Versions below `low` are at or before the position; versions from `high` on are after it.
        let (mut low, mut high) = (1, self.newest.last().map_or(1, |it| it.version));
        while low < high {
            let middle = low + (high - low) / 2;
            let event = self.version(middle).await?;
            if event.position <= position {
                low = middle + 1;
                found = Some(event);
            } else {
                high = middle;
            }
        }
        Ok(found)
    }

    pub(super) async fn version(&self, version: i64) -> anyhow::Result<RecordedEvent> {
        let part = StreamPart {
            before: version + 1,
            ..StreamPart::newest(self.shard, self.subject, 1)
        };
        let event = read(&self.databases.log, &part).await?.pop();
        event.with_context(|| format!("the log lacks version {version} of {}", self.subject))
    }

    /// Returns the newest event.
    pub(super) fn last(&self) -> Option<&RecordedEvent> {
        self.newest.first()
    }
}

/// Reads a part of a stream, newest event first.
pub(super) async fn read(pool: &PgPool, part: &StreamPart) -> anyhow::Result<Vec<RecordedEvent>> {
    let events = log::read_stream_backwards(pool, part).await;
    events.context("cannot read the log")
}
