//! Decodes the payload of a recorded event, once for all projections.

use linkledger_core::envelope::RecordedEvent;

use super::poison::Poison;
use crate::read_models::DecodedEvent;

/// An event of a [`ShardBatch`](super::apply::ShardBatch), after the attempt to decode its payload.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "almost every event is decoded")]
pub enum BatchEvent {
    /// The payload was decoded. The database may still refuse the event's rows.
    Decoded(DecodedEvent),
    /// The event cannot be applied.
    Poison(RecordedEvent, Poison),
}

impl BatchEvent {
    /// Decodes the payload.
    pub fn decode(recorded: RecordedEvent) -> Self {
        match recorded.decode() {
            Ok(event) => Self::Decoded(DecodedEvent { recorded, event }),
            Err(error) => Self::Poison(recorded, Poison::undecodable(error)),
        }
    }

    /// Returns the recorded event if the event cannot be applied.
    pub fn as_poison(&self) -> Option<&RecordedEvent> {
        match self {
            Self::Decoded(_) => None,
            Self::Poison(recorded, _) => Some(recorded),
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
