//! Decodes a recorded event, once for all projections.

use linkledger_core::envelope::RecordedEvent;

use super::poison::Poison;
use crate::read_models::{DecodedEvent, EventContent};

/// An event of a [`ShardBatch`](super::apply::ShardBatch), after the attempt to decode it.
#[derive(Debug, Clone)]
pub enum BatchEvent {
    /// The event was decoded. The database may still refuse the event's rows.
    Decoded(DecodedEvent),
    /// The event cannot be applied.
    Poison(RecordedEvent, Poison),
}

impl BatchEvent {
    /// Decodes the event. An event of a link without a state that this release knows is poison, as one
    /// with an unknown payload: its rows would be a guess.
    pub fn decode(recorded: RecordedEvent) -> Self {
        match EventContent::of(&recorded) {
            Ok(content) => Self::Decoded(DecodedEvent { recorded, content }),
            Err(error) => Self::Poison(recorded, Poison::undecodable(error)),
        }
    }

    /// Returns about how many rows of the read tables the event writes.
    pub fn rows(&self) -> usize {
        match self {
            Self::Decoded(event) => event.content.rows(),
            Self::Poison(..) => 1,
        }
    }

    /// Returns the recorded event: its position, account, metadata and raw payload.
    pub fn recorded(&self) -> &RecordedEvent {
        match self {
            Self::Decoded(event) => &event.recorded,
            Self::Poison(recorded, _) => recorded,
        }
    }
}
