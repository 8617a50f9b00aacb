//! Poison events: events that cannot be applied. The projector does not skip a poison event, but
//! parks its account (see [`crate::pipeline::parking`]); other accounts go on.

use linkledger_core::{event::DecodeError, printable::printable};
use serde::Serialize;

/// Maximum number of characters of the detail of a poison event.
const DETAIL_LENGTH_MAX: usize = 500;

linkledger_core::named_enum! {
    /// Category of a poison event.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum PoisonReason {
        /// The event has a type, a version or a state of the link that this release does not know.
        UnknownEvent = "unknown_event",
        /// The payload does not fit the event's type and version.
        MalformedPayload = "malformed_payload",
        /// The database refuses the rows of the event.
        RefusedRow = "refused_row",
    }
}

/// Reason and detail of a poison event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Poison {
    /// Category of the failure.
    pub reason: PoisonReason,
    /// Message for operators. Not for logs, because the message may quote the event.
    pub detail: String,
}

impl Poison {
    /// Returns the poison of an event that cannot be decoded.
    pub fn undecodable(error: DecodeError) -> Self {
        let reason = match &error {
            DecodeError::Unknown { .. } | DecodeError::State { .. } => PoisonReason::UnknownEvent,
            DecodeError::Payload { .. } => PoisonReason::MalformedPayload,
        };
        let detail = detail_of(error);
        Self { reason, detail }
    }

    /// Returns the poison of an event whose rows the database has refused.
    pub fn refused(error: sqlx::Error) -> Self {
        Self {
            reason: PoisonReason::RefusedRow,
            detail: detail_of(error),
        }
    }
}

/// Returns the error as one printable line: the database refuses U+0000.
fn detail_of(error: impl std::error::Error + Send + Sync + 'static) -> String {
    let text = format!("{:#}", anyhow::Error::new(error));
    printable(&text).chars().take(DETAIL_LENGTH_MAX).collect()
}
