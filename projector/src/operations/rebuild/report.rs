//! Report of a rebuild or rollback.

use std::{fmt, time::Duration};

use serde::Serialize;

use super::parked::WouldPark;
use crate::operations::number_format::{counted, per_second};

/// Report of a rebuild or rollback of one projection.
#[derive(Debug, Clone, Serialize)]
pub struct RebuildReport {
    /// Name of the projection.
    pub projection: &'static str,
    /// Number of the new generation.
    pub generation: i32,
    /// Number of the generation served before.
    pub previous: i32,
    /// True if the new generation is served.
    pub served: bool,
    /// Number of events read.
    pub events: u64,
    /// Number of events that the generation was verified with.
    pub verified_events: u64,
    /// Accounts that are parked in this generation and not in the served one: they prevent the swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would_park: Option<WouldPark>,
    /// True if the projection is paused. A swap moves a paused projection too.
    pub is_paused: bool,
    /// Duration since the start of the command.
    pub seconds: f64,
}

impl fmt::Display for RebuildReport {
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
            format!("is ready; generation {previous} is still served")
        };
        let state = match (self.is_paused, self.served) {
            (true, true) => format!(
                "{state}; the projection is paused: the swap has moved it to the head of the log, \
                 where it stops"
            ),
            (true, false) | (false, _) => state,
        };
        let rate = per_second(*events, Duration::from_secs_f64(*seconds));
        let (events, rate) = (counted(*events, "event"), counted(rate, "event"));
        write!(
            f,
            "Generation {generation} of `{projection}` {state}.\n  read: {events}, \
             without a gap in any shard, {seconds:.1} s after the beginning ({rate}/s)"
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
