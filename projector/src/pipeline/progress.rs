//! Admits the events that are next in a shard: sorts out duplicates, gaps and foreign epochs.
//!
//! The code does no I/O and reads no clock. The topic may repeat and omit events; admitted events
//! are complete and in order.

use std::{cmp::Ordering, ops::RangeInclusive};

use linkledger_core::{
    cloud_event::PublishedEvent,
    envelope::RecordedEvent,
    projection::{PerProjection, Projection},
    shard::{Position, Shard},
};

use crate::pipeline::checkpoint::{Checkpoint, CheckpointAdvance};

/// Lag, in events behind the foremost projection of a shard, from which on a projection catches up
/// separately, so that the other projections stay live.
const CATCH_UP_LAG_MIN: Position = 4_000;

/// Mode of a projection in a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The projection applies the next events together with the other live projections, and drops
    /// duplicates.
    Live,
    /// The projection catches up from the event store, separately from the live projections.
    CatchingUp,
    /// An operator has paused the projection.
    Paused,
}

/// Remembered checkpoints of all projections in one shard.
#[derive(Debug, Clone)]
pub struct ShardProgress {
    shard: Shard,
    epoch: i32,
    checkpoints: PerProjection<Checkpoint>,
    modes: PerProjection<Mode>,
    /// Position up to which events are read from the event store, not from the topic.
    backfill_until: Position,
}

/// Consecutive events, of which the first is the next event of some projection.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AdmittedEvents {
    /// Events in the order of their positions.
    pub events: Vec<RecordedEvent>,
    /// Number of delivered events that each projection had applied before.
    pub duplicates: PerProjection<u64>,
    /// Missing positions after `events`.
    pub gap: Option<RangeInclusive<Position>>,
}

/// A record of a later epoch than the checkpoints: the log was restored from a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "shard {shard}: record {position} is of log epoch {found}, the read tables are of epoch \
     {expected}"
)]
pub struct LaterEpoch {
    shard: Shard,
    position: Position,
    /// Epoch of the record.
    pub found: i32,
    expected: i32,
}

impl ShardProgress {
    /// Returns the progress of live projections with these checkpoints, which have the given epoch.
    /// Events up to `backfill_until` are read from the event store.
    pub fn new(
        shard: Shard,
        epoch: i32,
        checkpoints: PerProjection<Checkpoint>,
        backfill_until: Position,
    ) -> Self {
        Self {
            shard,
            epoch,
            checkpoints,
            modes: [Mode::Live; Projection::ALL.len()],
            backfill_until,
        }
    }

    /// Sets the modes: paused projections are [`Mode::Paused`], projections far behind the foremost
    /// one are [`Mode::CatchingUp`], all others are [`Mode::Live`].
    #[must_use]
    pub fn with_paused(mut self, paused: PerProjection<bool>) -> Self {
        let moving = Projection::ALL
            .into_iter()
            .filter(|projection| !paused[projection.index()]);
        let foremost = moving
            .map(|projection| self.checkpoint(projection).position)
            .max();
        for projection in Projection::ALL {
            let position = self.checkpoint(projection).position;
            let lag = foremost.map_or(0, |foremost| foremost - position);
            self.modes[projection.index()] = match paused[projection.index()] {
                true => Mode::Paused,
                false if lag >= CATCH_UP_LAG_MIN => Mode::CatchingUp,
                false => Mode::Live,
            };
        }
        self
    }

    /// Returns the progress of some projections, whose checkpoints have one epoch. The other
    /// projections have the highest possible checkpoint, so that no event is applied to them.
    pub fn of(shard: Shard, checkpoints: &[(Projection, Checkpoint)]) -> Self {
        let epoch = checkpoints
            .first()
            .map_or(0, |(_, checkpoint)| checkpoint.epoch);
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

    /// Returns the epoch of the log that the checkpoints belong to.
    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Returns the shard.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Returns the lowest checkpoint of the live projections; `None` if no projection is
    /// live.
    pub fn floor(&self) -> Option<Position> {
        self.floor_of(Mode::Live)
    }

    fn floor_of(&self, mode: Mode) -> Option<Position> {
        let projections = Projection::ALL.into_iter();
        let in_mode = projections.filter(|projection| self.mode(*projection) == mode);
        in_mode
            .map(|projection| self.checkpoint(projection).position)
            .min()
    }

    /// Returns the mode of a projection.
    pub fn mode(&self, projection: Projection) -> Mode {
        self.modes[projection.index()]
    }

    /// Returns a copy in which the catching-up projections are [`Mode::Live`] and all others
    /// [`Mode::Paused`], with a backfill up to the floor of `self`. Returns `None` if no projection
    /// catches up.
    pub fn catching_up(&self) -> Option<Self> {
        self.floor_of(Mode::CatchingUp)?;
        let modes = self.modes.map(|mode| match mode {
            Mode::CatchingUp => Mode::Live,
            Mode::Live | Mode::Paused => Mode::Paused,
        });
        Some(Self {
            modes,
            backfill_until: self.floor()?,
            ..self.clone()
        })
    }

    /// Returns the checkpoint of a projection.
    pub fn checkpoint(&self, projection: Projection) -> Checkpoint {
        self.checkpoints[projection.index()]
    }

    /// Returns true if events have to be read from the event store.
    pub fn needs_backfill(&self) -> bool {
        self.floor()
            .is_some_and(|floor| self.backfill_until > floor)
    }

    /// Returns the position up to which events have to be read from the event store.
    pub fn backfill_until(&self) -> Position {
        self.backfill_until
    }

    /// Extends the backfill: events up to `position` have to be read from the event store.
    pub fn extend_backfill(&mut self, position: Position) {
        self.backfill_until = self.backfill_until.max(position);
    }

    /// Admits events from the topic, which may be out of order, repeated, or incomplete. Events
    /// behind a gap extend the backfill. Events of an earlier epoch are dropped.
    ///
    /// # Errors
    /// Returns [`LaterEpoch`] if an event has a later epoch than the checkpoints.
    pub fn admit_delivered(
        &mut self,
        delivered: Vec<PublishedEvent>,
    ) -> Result<AdmittedEvents, LaterEpoch> {
        let mut events = Vec::with_capacity(delivered.len());
        for PublishedEvent {
            event, log_epoch, ..
        } in delivered
        {
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
        if self.needs_backfill() {
            // The backfill reads the delivered events too, in larger chunks than the topic
            // delivers.
            self.extend_backfill(highest);
            return Ok(AdmittedEvents::default());
        }
        let admitted = self.admit(events);
        if admitted.gap.is_some() {
            self.extend_backfill(highest);
        }
        Ok(admitted)
    }

    /// Admits events that were read from the event store after the floor; `is_end` is true if the
    /// event store has no more events.
    pub fn admit_read(&mut self, events: Vec<RecordedEvent>, is_end: bool) -> AdmittedEvents {
        if is_end {
            // The relay publishes committed events only. A record with a position beyond the end of
            // the log is therefore invalid.
            self.backfill_until = 0;
        }
        self.admit(events)
    }

    /// Returns the checkpoints that advance when the events up to `to` are applied.
    pub fn advances(&self, to: Position) -> impl Iterator<Item = CheckpointAdvance> {
        Projection::ALL
            .into_iter()
            .map(move |projection| CheckpointAdvance {
                projection,
                shard: self.shard,
                from: self.checkpoint(projection),
                to,
            })
            .filter(|advance| {
                self.mode(advance.projection) == Mode::Live && advance.from.position < advance.to
            })
    }

    /// Advances the checkpoints of the live projections to `to`.
    pub fn advance(&mut self, to: Position) {
        self.advance_modes(self.modes, to);
    }

    /// Advances to `to` the checkpoints of the projections that are live in `applied`.
    pub fn advance_like(&mut self, applied: &Self, to: Position) {
        self.advance_modes(applied.modes, to);
    }

    /// Advances the checkpoints of the projections that are live in `modes`. A projection that has
    /// caught up with the floor becomes live.
    fn advance_modes(&mut self, modes: PerProjection<Mode>, to: Position) {
        for (checkpoint, mode) in self.checkpoints.iter_mut().zip(modes) {
            if mode == Mode::Live {
                checkpoint.position = checkpoint.position.max(to);
            }
        }
        if self.floor_of(Mode::CatchingUp) >= self.floor() {
            self.modes = self.modes.map(|mode| match mode {
                Mode::Live | Mode::CatchingUp => Mode::Live,
                Mode::Paused => Mode::Paused,
            });
        }
    }

    fn admit(&self, mut delivered: Vec<RecordedEvent>) -> AdmittedEvents {
        let Some(floor) = self.floor() else {
            return AdmittedEvents::default();
        };
        delivered.sort_by_key(|event| event.position);
        let mut admitted = AdmittedEvents {
            events: Vec::with_capacity(delivered.len()),
            ..AdmittedEvents::default()
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
                    admitted.gap = Some(next..=event.position - 1);
                    break;
                }
            }
        }
        admitted.duplicates = Projection::ALL.map(|projection| {
            if self.mode(projection) != Mode::Live {
                return 0;
            }
            let checkpoint = self.checkpoint(projection).position;
            let is_duplicate = |event: &&RecordedEvent| event.position <= checkpoint;
            repeated + admitted.events.iter().take_while(is_duplicate).count() as u64
        });
        admitted
    }
}

#[cfg(test)]
mod tests;
