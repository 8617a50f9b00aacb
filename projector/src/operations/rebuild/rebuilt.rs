//! What a rebuild tells of itself.

use std::{fmt, time::Duration};

use linkledger_core::shard::{Position, Shard};
use serde::Serialize;

use super::{comparison::Comparison, parked::WouldPark, reading::Readings};
use crate::operations::figures::{counted, per_second};

/// Most differences that are told to people.
const SHOWN_MAX: usize = 10;

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
    /// `None`: the generation that was served says nothing of where this one is.
    pub comparison: Option<Comparison>,
    /// How many events it was compared with, unless it says what the other one says.
    pub verified_events: Option<u64>,
    /// Accounts that the served generation serves and this one could not: it is not served like
    /// that.
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
        let Some(Comparison {
            rows,
            buckets,
            differences,
        }) = &self.comparison
        else {
            write!(
                f,
                "\n  not compared: generation {previous} says nothing of that place of the log"
            )?;
            return self.write_verified(f);
        };
        write!(
            f,
            "\n  compared with generation {previous}: {} in {}, ",
            counted(*rows, "row"),
            counted(*buckets, "bucket")
        )?;
        if differences.is_empty() {
            write!(f, "no difference")?;
            return self.write_would_park(f);
        }
        write!(f, "{}", counted(differences.len() as u64, "difference"))?;
        self.write_verified(f)?;
        match self.would_park {
            None => write!(f, "\n  generation {previous} was wrong:")?,
            Some(_) => write!(f, "\n  the differences:")?,
        }
        for difference in differences.iter().take(SHOWN_MAX) {
            write!(f, "\n    {difference}")?;
        }
        match differences.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\n    and {more} more (--json shows them)"),
        }
    }
}

impl Rebuilt {
    fn write_verified(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = counted(self.verified_events.unwrap_or(0), "event");
        write!(f, "\n  verified with {events} of the log: nothing is wrong")?;
        self.write_would_park(f)
    }

    fn write_would_park(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.would_park {
            None => Ok(()),
            Some(would_park) => write!(f, "\n  it can't be served like that: {would_park}"),
        }
    }
}
