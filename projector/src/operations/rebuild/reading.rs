//! Reads the log for a rebuild.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use linkledger_core::{
    event_store::log::stored::{PositionRange, read_stored},
    shard::{Position, Shard},
};
use sqlx::PgPool;

use crate::pipeline::decode::BatchEvent;

/// Reads all events of a stretch of the log. Each chunk of a rebuild begins at the checkpoint, so a
/// generation cannot skip an event.
///
/// # Errors
/// Returns an error if an event is missing, or if the database fails.
pub(super) async fn read(
    pool: &PgPool,
    shard: Shard,
    after: Position,
    up_to: Position,
) -> anyhow::Result<Vec<Arc<BatchEvent>>> {
    let stretch = PositionRange {
        shard,
        after,
        up_to,
    };
    let stored = read_stored(pool, stretch).await;
    let stored = stored.context("cannot read the event store")?;
    let mut events = Vec::with_capacity(usize::try_from(up_to - after)?);
    let mut next = after + 1;
    for event in stored.iter() {
        let event = event.context("cannot read the event store")?;
        let position = event.position;
        ensure!(
            position == next,
            "the event store lacks the event at position {next} of shard {shard}"
        );
        next += 1;
        events.push(Arc::new(BatchEvent::decode(event.to_recorded(shard))));
    }
    ensure!(
        next == up_to + 1,
        "the event store lacks the event at position {next} of shard {shard}"
    );
    Ok(events)
}
