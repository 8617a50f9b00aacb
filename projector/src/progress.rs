//! What of a delivery is next in line: duplicates, holes and foreign epochs are told apart here.
//!
//! Pure: no I/O, no clock. The topic may repeat and omit; what is admitted never does.

use std::{cmp::Ordering, ops::RangeInclusive};

use linkledger_core::{
    cloud_event::PublishedEvent,
    envelope::RecordedEvent,
    shard::{Position, Shard},
};

use crate::{
    checkpoint::{Advance, Checkpoint},
    projections::{PerProjection, Projection},
};

/// How far the projections are in one shard, as far as this process knows.
#[derive(Debug, Clone)]
pub struct Progress {
    shard: Shard,
    epoch: i32,
    checkpoints: PerProjection<Checkpoint>,
    /// Everything up to it is in the event store and is read from there, not from the topic.
    owed: Position,
}

/// Events that follow each other without gaps, the first one next in line for some projection.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// In order.
    pub events: Vec<RecordedEvent>,
    /// How many of the delivered events each projection had before.
    pub duplicates: PerProjection<u64>,
    /// The positions that were missing where `events` ends.
    pub hole: Option<RangeInclusive<Position>>,
}

/// A record belongs to a later epoch than the checkpoints: the log was restored meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "shard {shard}: record {position} is of log epoch {found}, the read tables are of epoch \
     {expected}"
)]
pub struct LaterEpoch {
    shard: Shard,
    position: Position,
    found: i32,
    expected: i32,
}

impl Progress {
    /// Progress from these checkpoints, all of `epoch`; everything up to `owed` is read from the
    /// event store.
    pub fn new(
        shard: Shard,
        epoch: i32,
        checkpoints: PerProjection<Checkpoint>,
        owed: Position,
    ) -> Self {
        Self {
            shard,
            epoch,
            checkpoints,
            owed,
        }
    }

    /// The shard.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Up to here all projections have everything.
    pub fn floor(&self) -> Position {
        let positions = self.checkpoints.iter().map(|it| it.position);
        positions.min().expect("there are projections")
    }

    /// Where one projection stands.
    pub fn checkpoint(&self, projection: Projection) -> Checkpoint {
        self.checkpoints[projection.index()]
    }

    /// Whether events have to be read from the event store.
    pub fn is_owed(&self) -> bool {
        self.owed > self.floor()
    }

    /// Everything up to here has to be read from the event store.
    pub fn owed(&self) -> Position {
        self.owed
    }

    /// Everything up to `position` has to be read from the event store.
    pub fn owe(&mut self, position: Position) {
        self.owed = self.owed.max(position);
    }

    /// What is next in line among events from the topic: in whatever order, perhaps repeated,
    /// perhaps with holes. What can't be used yet is owed.
    ///
    /// # Errors
    /// [`LaterEpoch`]; events of an earlier epoch are dropped.
    pub fn admit_delivered(
        &mut self,
        delivered: Vec<PublishedEvent>,
    ) -> Result<Admitted, LaterEpoch> {
        let mut events = Vec::with_capacity(delivered.len());
        for PublishedEvent { event, log_epoch } in delivered {
            if log_epoch > self.epoch {
                return Err(LaterEpoch {
                    shard: self.shard,
                    position: event.position,
                    found: log_epoch,
                    expected: self.epoch,
                });
            }
            if log_epoch == self.epoch {
                events.push(event);
            }
        }
        let highest = events.iter().map(|event| event.position).max().unwrap_or(0);
        if self.is_owed() {
            // The event store has these too, in longer runs than the topic.
            self.owe(highest);
            return Ok(Admitted::default());
        }
        let admitted = self.admit(events);
        if admitted.hole.is_some() {
            self.owe(highest);
        }
        Ok(admitted)
    }

    /// What is next in line among events that were read from the event store after the floor;
    /// `is_end` if there were no more of them.
    pub fn admit_read(&mut self, events: Vec<RecordedEvent>, is_end: bool) -> Admitted {
        if is_end {
            // An event is visible in the event store before it is published: nothing is owed
            // beyond, whatever a record claimed.
            self.owed = 0;
        }
        self.admit(events)
    }

    /// The checkpoints that move when everything up to `to` is applied.
    pub fn advances(&self, to: Position) -> impl Iterator<Item = Advance> {
        Projection::ALL
            .into_iter()
            .map(move |projection| Advance {
                projection,
                shard: self.shard,
                from: self.checkpoint(projection),
                to,
            })
            .filter(|advance| advance.from.position < advance.to)
    }

    /// Everything up to `to` has been applied.
    pub fn advance(&mut self, to: Position) {
        for checkpoint in &mut self.checkpoints {
            checkpoint.position = checkpoint.position.max(to);
        }
    }

    fn admit(&self, mut delivered: Vec<RecordedEvent>) -> Admitted {
        delivered.sort_by_key(|event| event.position);
        let mut admitted = Admitted {
            events: Vec::with_capacity(delivered.len()),
            ..Admitted::default()
        };
        let (mut next, mut repeated) = (self.floor() + 1, 0);
        for event in delivered {
            match event.position.cmp(&next) {
                Ordering::Less => repeated += 1,
                Ordering::Equal => {
                    next += 1;
                    admitted.events.push(event);
                }
                Ordering::Greater => {
                    admitted.hole = Some(next..=event.position - 1);
                    break;
                }
            }
        }
        admitted.duplicates = self.checkpoints.map(|checkpoint| {
            let had = |event: &RecordedEvent| event.position <= checkpoint.position;
            repeated
                + admitted
                    .events
                    .iter()
                    .take_while(|event| had(event))
                    .count() as u64
        });
        admitted
    }
}

#[cfg(test)]
mod tests;
