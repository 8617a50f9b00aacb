//! The stream of a link or an account, and how to find a place in it.

use anyhow::Context as _;
use linkledger_core::{
    envelope::RecordedEvent,
    event::Subject,
    event_store::log::{self, StreamPart},
    shard::{Position, Shard},
};
use sqlx::PgPool;

/// The stream that is asked for, with its newest events.
pub(super) struct Stream<'a> {
    pub(super) pool: &'a PgPool,
    pub(super) shard: Shard,
    pub(super) subject: Subject,
    pub(super) newest: &'a [RecordedEvent],
    pub(super) log_epoch: i32,
}

impl Stream<'_> {
    /// The last event at or before a place in the shard. The newest ones are at hand; further back
    /// it is looked for by halves, since positions rise with versions.
    pub(super) async fn last_up_to(
        &self,
        position: Position,
    ) -> anyhow::Result<Option<RecordedEvent>> {
        if let Some(event) = self.newest.iter().find(|it| it.position <= position) {
            return Ok(Some(event.clone()));
        }
        let mut found = None;
        // Versions below `low` are at or before the place; from `high` on they are after it.
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
        let events = log::read_stream_backwards(self.pool, &part).await;
        let event = events.context("can't read the log")?.pop();
        event.with_context(|| format!("the log lacks version {version} of {}", self.subject))
    }

    /// The newest event.
    pub(super) fn last(&self) -> Option<&RecordedEvent> {
        self.newest.first()
    }
}
