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
    pipeline::checkpoint::{Advance, Checkpoint},
    read_models::{PerProjection, Projection},
};

/// The lag, in events, behind the foremost projection of a shard from which on one catches up by
/// itself, so that the others go on meanwhile.
const BEHIND_MIN: Position = 4_000;

/// How a projection gets on in a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// It takes what is next, together with the others; what it had before is dropped.
    Joint,
    /// It catches up by itself, from the event store.
    Behind,
    /// It stays where it is.
    Paused,
}

/// How far the projections are in one shard, as far as this process knows.
#[derive(Debug, Clone)]
pub struct Progress {
    shard: Shard,
    epoch: i32,
    checkpoints: PerProjection<Checkpoint>,
    lines: PerProjection<Line>,
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
    /// That of the record.
    pub found: i32,
    expected: i32,
}

impl Progress {
    /// Progress of all projections together, from these checkpoints, which are of `epoch`;
    /// everything up to `owed` is read from the event store.
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
            lines: [Line::Joint; Projection::ALL.len()],
            owed,
        }
    }

    /// The same without those that are paused, and with those by themselves that are far behind.
    #[must_use]
    pub fn with_paused(mut self, paused: PerProjection<bool>) -> Self {
        let moving = Projection::ALL.into_iter().filter(|it| !paused[it.index()]);
        let foremost = moving.map(|it| self.checkpoint(it).position).max();
        for projection in Projection::ALL {
            let position = self.checkpoint(projection).position;
            let lag = foremost.map_or(0, |foremost| foremost - position);
            self.lines[projection.index()] = match paused[projection.index()] {
                true => Line::Paused,
                false if lag >= BEHIND_MIN => Line::Behind,
                false => Line::Joint,
            };
        }
        self
    }

    /// Progress of some projections, of one epoch; the others lack nothing.
    pub fn of(shard: Shard, checkpoints: &[(Projection, Checkpoint)]) -> Self {
        let epoch = checkpoints.first().map_or(0, |(_, it)| it.epoch);
        let mut all: PerProjection<Checkpoint> = [Checkpoint {
            generation: 0,
            epoch,
            position: Position::MAX,
        }; _];
        for (projection, checkpoint) in checkpoints {
            all[projection.index()] = *checkpoint;
        }
        Self::new(shard, epoch, all, 0)
    }

    /// The epoch of the log that the checkpoints are of.
    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// The shard.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Up to here all projections that go on together have everything; `None` if all are paused.
    pub fn floor(&self) -> Option<Position> {
        self.floor_of(Line::Joint)
    }

    fn floor_of(&self, line: Line) -> Option<Position> {
        let projections = Projection::ALL.into_iter();
        let of_line = projections.filter(|it| self.line(*it) == line);
        of_line.map(|it| self.checkpoint(it).position).min()
    }

    /// How a projection gets on.
    pub fn line(&self, projection: Projection) -> Line {
        self.lines[projection.index()]
    }

    /// The progress of those that catch up by themselves: up to where the others are. `None` if
    /// nobody does.
    pub fn behind(&self) -> Option<Self> {
        self.floor_of(Line::Behind)?;
        let lines = self.lines.map(|line| match line {
            Line::Behind => Line::Joint,
            Line::Joint | Line::Paused => Line::Paused,
        });
        Some(Self {
            lines,
            owed: self.floor()?,
            ..self.clone()
        })
    }

    /// Where one projection stands.
    pub fn checkpoint(&self, projection: Projection) -> Checkpoint {
        self.checkpoints[projection.index()]
    }

    /// Whether events have to be read from the event store.
    pub fn is_owed(&self) -> bool {
        self.floor().is_some_and(|floor| self.owed > floor)
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
            .filter(|it| self.line(it.projection) == Line::Joint && it.from.position < it.to)
    }

    /// Everything up to `to` has been applied.
    pub fn advance(&mut self, to: Position) {
        self.advance_lines(self.lines, to);
    }

    /// Everything up to `to` has been applied to those that `applied` advances.
    pub fn advance_as(&mut self, applied: &Self, to: Position) {
        self.advance_lines(applied.lines, to);
    }

    fn advance_lines(&mut self, lines: PerProjection<Line>, to: Position) {
        for (checkpoint, line) in self.checkpoints.iter_mut().zip(lines) {
            if line == Line::Joint {
                checkpoint.position = checkpoint.position.max(to);
            }
        }
        if self.floor_of(Line::Behind) >= self.floor() {
            self.lines = self.lines.map(|line| match line {
                Line::Joint | Line::Behind => Line::Joint,
                Line::Paused => Line::Paused,
            });
        }
    }

    fn admit(&self, mut delivered: Vec<RecordedEvent>) -> Admitted {
        let Some(floor) = self.floor() else {
            return Admitted::default();
        };
        delivered.sort_by_key(|event| event.position);
        let mut admitted = Admitted {
            events: Vec::with_capacity(delivered.len()),
            ..Admitted::default()
        };
        let (mut next, mut repeated) = (floor + 1, 0);
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
        admitted.duplicates = Projection::ALL.map(|projection| {
            if self.line(projection) != Line::Joint {
                return 0;
            }
            let position = self.checkpoint(projection).position;
            let had = |event: &&RecordedEvent| event.position <= position;
            repeated + admitted.events.iter().take_while(had).count() as u64
        });
        admitted
    }
}

#[cfg(test)]
mod tests;
