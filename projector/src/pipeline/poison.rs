//! Reasons for which an event can't be applied. No such event is skipped: its account is parked
//! (see [`crate::pipeline::parking`]), and the other accounts go on.

use linkledger_core::event::DecodeError;

/// Most characters of a reason in words.
const DETAIL_LENGTH_MAX: usize = 500;

/// What is wrong with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Of a type or a version that a later release has brought.
    UnknownEvent,
    /// Not of the form that its type and version promise.
    MalformedPayload,
    /// The database does not take the rows that it leads to.
    RefusedRow,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::UnknownEvent, Self::MalformedPayload, Self::RefusedRow];

    /// The name in SQL, logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownEvent => "unknown_event",
            Self::MalformedPayload => "malformed_payload",
            Self::RefusedRow => "refused_row",
        }
    }

    /// The reason of that name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Why an event can't be applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poison {
    /// For programs.
    pub reason: Reason,
    /// The same in words. May quote the event: for operators, not for logs.
    pub detail: String,
}

impl Poison {
    /// Returns the reason for which a payload can't be read.
    pub fn unreadable(error: DecodeError) -> Self {
        let reason = match &error {
            DecodeError::Unknown { .. } => Reason::UnknownEvent,
            DecodeError::Payload { .. } => Reason::MalformedPayload,
        };
        let detail = in_words(error);
        Self { reason, detail }
    }

    /// The database has refused it.
    pub fn refused(error: sqlx::Error) -> Self {
        Self {
            reason: Reason::RefusedRow,
            detail: in_words(error),
        }
    }
}

/// One line, which the database takes whatever the event contains.
fn in_words(error: impl std::error::Error + Send + Sync + 'static) -> String {
    let text = format!("{:#}", anyhow::Error::new(error));
    let printable = text.chars().filter(|character| !character.is_control());
    printable.take(DETAIL_LENGTH_MAX).collect()
}
