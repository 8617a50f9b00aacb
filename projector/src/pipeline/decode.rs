//! Reads the payload of a recorded event, once for all projections.

use linkledger_core::envelope::RecordedEvent;

use super::poison::Poison;
use crate::read_models::DecodedEvent;

/// An event after the attempt to read its payload.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// It can be applied, as far as this process can tell.
    Decoded(DecodedEvent),
    /// It can't be applied.
    Poison(RecordedEvent, Poison),
}

impl RunEvent {
    /// Reads the payload.
    pub fn read(recorded: RecordedEvent) -> Self {
        match recorded.decode() {
            Ok(event) => Self::Decoded(DecodedEvent { recorded, event }),
            Err(error) => Self::Poison(recorded, Poison::unreadable(error)),
        }
    }

    /// The event, if it can't be applied.
    pub fn unreadable(&self) -> Option<&RecordedEvent> {
        match self {
            Self::Decoded(_) => None,
            Self::Poison(recorded, _) => Some(recorded),
        }
    }

    /// Its place and its circumstances.
    pub fn recorded(&self) -> &RecordedEvent {
        match self {
            Self::Decoded(event) => &event.recorded,
            Self::Poison(recorded, _) => recorded,
        }
    }
}
