//! Reading the log for a rebuild: every event of a stretch, and the count of what was read.

use anyhow::{Context as _, ensure};
use linkledger_core::{
    event_store::log::{
        PerShard,
        stored::{PositionRange, read_stored},
    },
    shard::{Position, Shard},
};
use sqlx::PgPool;

use crate::{pipeline::decode::RunEvent, read_models::Projection};

/// What was read of a shard for a generation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Where the generation stood before.
    pub start: Position,
    /// The last event that was read.
    pub read_up_to: Position,
    /// How many events were read, each counted once.
    pub events: u64,
}

impl Reading {
    /// Nothing is read yet.
    pub fn from(start: Position) -> Self {
        Self {
            start,
            read_up_to: start,
            events: 0,
        }
    }

    /// Events that follow each other were read, perhaps again.
    pub(super) fn note(&mut self, events: &[RunEvent]) {
        let position = |event: &RunEvent| event.recorded().position;
        let known = events.partition_point(|event| position(event) <= self.read_up_to);
        self.events += (events.len() - known) as u64;
        let last = events.last().map_or(0, position);
        self.read_up_to = self.read_up_to.max(last);
    }
}

/// The readings of a generation.
pub type Readings = PerShard<Reading>;

/// Whether each event up to these places was read, by the number of those that were.
///
/// # Errors
/// When it was not.
pub(super) fn ensure_complete(
    projection: Projection,
    readings: &Readings,
    positions: &PerShard<Position>,
) -> anyhow::Result<()> {
    for (shard, (reading, position)) in Shard::all().zip(readings.iter().zip(positions)) {
        let (events, expected) = (reading.events, position - reading.start);
        ensure!(
            expected.unsigned_abs() == events,
            "{events} events of shard {shard} were read for `{projection}` where {expected} were \
             to be read, from position {} to {position}: nothing is served that may lack some; \
             run the command again",
            reading.start
        );
    }
    Ok(())
}

/// The events of a stretch: each of them, or an error.
pub(super) async fn read(
    pool: &PgPool,
    shard: Shard,
    after: Position,
    up_to: Position,
) -> anyhow::Result<Vec<RunEvent>> {
    let stretch = PositionRange {
        shard,
        after,
        up_to,
    };
    let mut session = pool.acquire().await.context("can't read the event store")?;
    let stored = read_stored(&mut session, stretch)
        .await
        .context("can't read the event store")?;
    drop(session);
    let mut events = Vec::with_capacity(usize::try_from(up_to - after)?);
    let mut next = after + 1;
    for event in stored.iter() {
        let event = event.context("can't read the event store")?;
        let position = event.position;
        ensure!(
            position == next,
            "the event store lacks the event at position {next} of shard {shard}"
        );
        next += 1;
        let recorded = event.to_recorded(shard).with_context(|| {
            format!("can't read the metadata of the event at position {position} of shard {shard}")
        })?;
        events.push(RunEvent::read(recorded));
    }
    ensure!(
        next == up_to + 1,
        "the event store lacks the event at position {next} of shard {shard}"
    );
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_complete_of_which_an_event_was_not_read_or_one_too_many() {
        let reading = |events| Reading {
            start: 10,
            read_up_to: 15,
            events,
        };
        let ensure = |events| {
            let mut readings = Readings::default();
            let mut positions = PerShard::default();
            (readings[3], positions[3]) = (reading(events), 15);
            ensure_complete(Projection::Links, &readings, &positions)
        };
        ensure(5).unwrap();
        for events in [4, 6] {
            let error = ensure(events).unwrap_err().to_string();
            assert!(error.contains("events of shard 3 were read"), "{error}");
        }
    }
}
