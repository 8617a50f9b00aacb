//! Reads the log for a rebuild, and counts the events read: a swap requires every event.

use anyhow::{Context as _, ensure};
use linkledger_core::{
    event_store::log::{
        PerShard,
        stored::{PositionRange, read_stored},
    },
    shard::{Position, Shard},
};
use sqlx::PgPool;

use crate::{pipeline::decode::BatchEvent, read_models::Projection};

/// Events of a shard that were read for a generation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardReading {
    /// Position of the generation at the start.
    pub start: Position,
    /// Position of the last event read.
    pub read_up_to: Position,
    /// Number of events read, each counted once.
    pub events: u64,
}

impl ShardReading {
    /// Returns a reading without events.
    pub fn from(start: Position) -> Self {
        Self {
            start,
            read_up_to: start,
            events: 0,
        }
    }

    /// Counts consecutive events; an event that was read before is not counted again.
    pub(super) fn note(&mut self, events: &[BatchEvent]) {
        let position = |event: &BatchEvent| event.recorded().position;
        let known = events.partition_point(|event| position(event) <= self.read_up_to);
        self.events += (events.len() - known) as u64;
        let last = events.last().map_or(0, position);
        self.read_up_to = self.read_up_to.max(last);
    }
}

/// Readings of a generation, by shard.
pub type ShardReadings = PerShard<ShardReading>;

/// Checks that each event up to these positions was read.
///
/// # Errors
/// Returns an error if the number of events read differs from the number of positions.
pub(super) fn ensure_complete(
    projection: Projection,
    readings: &ShardReadings,
    positions: &PerShard<Position>,
) -> anyhow::Result<()> {
    for (shard, (reading, position)) in Shard::all().zip(readings.iter().zip(positions)) {
        let (events, expected) = (reading.events, position - reading.start);
        ensure!(
            expected.unsigned_abs() == events,
            "{events} events of shard {shard} were read for `{projection}` instead of {expected}, \
             from position {} to {position}: the generation is not served because it may lack some; \
             run the command again",
            reading.start
        );
    }
    Ok(())
}

/// Reads all events of a stretch; a missing event is an error.
pub(super) async fn read(
    pool: &PgPool,
    shard: Shard,
    after: Position,
    up_to: Position,
) -> anyhow::Result<Vec<BatchEvent>> {
    let stretch = PositionRange {
        shard,
        after,
        up_to,
    };
    let mut session = pool
        .acquire()
        .await
        .context("cannot read the event store")?;
    let stored = read_stored(&mut session, stretch)
        .await
        .context("cannot read the event store")?;
    drop(session);
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
        let recorded = event.to_recorded(shard).with_context(|| {
            format!("cannot read the metadata of the event at position {position} of shard {shard}")
        })?;
        events.push(BatchEvent::decode(recorded));
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
    fn missing_or_extra_event_makes_a_reading_incomplete() {
        let reading = |events| ShardReading {
            start: 10,
            read_up_to: 15,
            events,
        };
        let ensure = |events| {
            let mut readings = ShardReadings::default();
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
