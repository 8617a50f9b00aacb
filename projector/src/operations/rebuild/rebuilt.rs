//! What a rebuild tells of itself.

use std::{fmt, time::Duration};

use linkledger_core::shard::{Position, Shard};
use serde::Serialize;

use super::{parked::WouldPark, reading::Readings};
use crate::operations::figures::{counted, per_second};

/// What has come of a rebuild, or of a rollback.
#[derive(Debug, Clone, Serialize)]
pub struct Rebuilt {
    /// Of which projection.
    pub projection: &'static str,
    /// Its generation.
    pub generation: i32,
    /// The one that was served.
    pub previous: i32,
    /// Whether it is served.
    pub served: bool,
    /// What was read of each shard.
    pub shards: Vec<ShardRead>,
    /// How many events were read.
    pub events: u64,
    /// Number of events that the generation was verified with.
    pub verified_events: u64,
    /// Accounts that are parked in this generation and not in the served one: they prevent the swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would_park: Option<WouldPark>,
    /// Whether the projection is paused: it has moved all the same, if the generation is served.
    pub is_paused: bool,
    /// From the beginning of the command.
    pub seconds: f64,
}

/// What was read of a shard.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ShardRead {
    /// Its number.
    pub shard: i16,
    /// Where the generation stood.
    pub start: Position,
    /// Where it stands.
    pub head: Position,
    /// How many events were read: as many as lie between.
    pub events: u64,
}

impl ShardRead {
    pub(super) fn of_all(readings: &Readings) -> Vec<Self> {
        let shards = Shard::all().zip(readings).map(|(shard, reading)| Self {
            shard: shard.number(),
            start: reading.start,
            head: reading.read_up_to,
            events: reading.events,
        });
        shards.collect()
    }
}

impl fmt::Display for Rebuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            projection,
            generation,
            previous,
            events,
            verified_events,
            would_park,
            seconds,
            ..
        } = self;
        let state = if self.served {
            format!("is served in place of generation {previous}")
        } else {
            format!("is ready; generation {previous} is served still")
        };
        let state = match (self.is_paused, self.served) {
            (true, true) => format!(
                "{state}; it is paused, and stands still from here on: what is served has moved to \
                 the head of the log"
            ),
            (true, false) | (false, _) => state,
        };
        let rate = per_second(*events, Duration::from_secs_f64(*seconds));
        let (events, rate) = (counted(*events, "event"), counted(rate, "event"));
        write!(
            f,
            "Generation {generation} of `{projection}` {state}.\n  read: {events}, as many as \
             there are in every shard, {seconds:.1} s after the beginning ({rate}/s)"
        )?;
        let verified = counted(*verified_events, "event");
        write!(
            f,
            "\n  verified with {verified} of the log: no row is wrong"
        )?;
        match would_park {
            None => Ok(()),
            Some(would_park) => write!(f, "\n  cannot be served yet: {would_park}"),
        }
    }
}
