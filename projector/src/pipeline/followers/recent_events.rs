//! Recent events of a shard, which the topic has delivered and its followers have not applied yet.
//!
//! The topic may repeat events and lack some. What is here is consecutive; a follower whose next event is not here reads
//! the log. The code does no I/O and reads no clock.

use std::{collections::VecDeque, ops::RangeInclusive, sync::Arc};

use linkledger_core::{cloud_event::PublishedEvent, shard::Position};

use crate::pipeline::decode::BatchEvent;

/// Consecutive events of one epoch of the log.
#[derive(Debug, Default)]
pub(super) struct RecentEvents {
    events: VecDeque<Arc<BatchEvent>>,
    /// Epoch and position of the last event, which may be applied already; `None` before the first one.
    end: Option<(i32, Position)>,
    /// True if the log is known to have the events: a topic that is older than the log would begin here.
    pub(super) is_confirmed: bool,
}

/// Relation of an event of the topic to the events before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Continuation {
    /// The event is the next one, or the first one.
    Next,
    /// The event came before, or is of an earlier epoch. It is dropped.
    Repeated,
    /// The topic lacks the events at these positions. The event begins a new sequence.
    Gap(RangeInclusive<Position>),
}

impl RecentEvents {
    /// Adds an event of the topic.
    pub(super) fn push(&mut self, published: PublishedEvent) -> Continuation {
        let (event, log_epoch) = (published.event, published.log_epoch);
        let position = event.position;
        let continuation = match self.end {
            Some((epoch, end)) if (log_epoch, position) <= (epoch, end) => {
                return Continuation::Repeated;
            }
            Some((epoch, end)) if epoch == log_epoch && position > end + 1 => {
                Continuation::Gap(end + 1..=position - 1)
            }
            _ => Continuation::Next,
        };
        let continues = |(epoch, end)| epoch == log_epoch && position == end + 1;
        if !self.end.is_some_and(continues) {
            self.clear();
        }
        self.end = Some((log_epoch, position));
        self.events.push_back(Arc::new(BatchEvent::decode(event)));
        continuation
    }

    /// Returns the events after a position, if the next one is here. Never empty.
    pub(super) fn after(
        &self,
        epoch: i32,
        position: Position,
    ) -> Option<impl ExactSizeIterator<Item = &Arc<BatchEvent>>> {
        self.end.filter(|end| end.0 == epoch)?;
        let skipped = usize::try_from(position + 1 - self.first()?).ok()?;
        (skipped < self.events.len()).then(|| self.events.range(skipped..))
    }

    /// Drops the events up to a position.
    pub(super) fn drop_until(&mut self, position: Position) {
        while self.first().is_some_and(|first| first <= position) {
            self.events.pop_front();
        }
    }

    /// Forgets all events: the next event of the topic begins a new sequence.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the number of events.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns epoch and position of the last event that was added; `None` before the first one.
    pub(super) fn end(&self) -> Option<(i32, Position)> {
        self.end
    }

    /// Returns the last event, unless it is applied already.
    pub(super) fn last(&self) -> Option<&BatchEvent> {
        self.events.back().map(AsRef::as_ref)
    }

    /// Returns the position of the first event.
    pub(super) fn first(&self) -> Option<Position> {
        Some(self.events.front()?.recorded().position)
    }
}

#[cfg(test)]
mod tests;
