//! What becomes of the commands of a batch.

use super::{SettledCreate, SettledLink};
use crate::{field::FieldError, link::ChangeLinkError};

/// What becomes of one command of the batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It has its effect: the number of the [`Accepted`](super::Accepted).
    Accepted(usize),
    /// An earlier command of this batch had the effect.
    AcceptedBefore(usize),
    /// The effect of the key is in the log already.
    Replay(Box<SettledCreate>),
    /// The link is so already.
    Unchanged(Box<SettledLink>),
    /// It has no effect.
    Rejected(Rejection),
    /// Our slug is taken: draw another one.
    SlugCollision,
}

/// Why a command has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// The key had another effect.
    KeyReused,
    /// The body breaks these rules.
    Invalid(Vec<FieldError>),
    /// The account has no such link.
    LinkNotFound,
    /// The link has not the version that was expected.
    VersionConflict {
        /// The version that it has.
        actual: i64,
    },
    /// The chosen slug is taken.
    SlugTaken,
    /// The balance does not cover the price.
    InsufficientCredits {
        /// What is there.
        balance: i64,
        /// What is needed.
        required: i64,
    },
}

impl From<ChangeLinkError> for Rejection {
    fn from(error: ChangeLinkError) -> Self {
        match error {
            ChangeLinkError::NotFound => Self::LinkNotFound,
            ChangeLinkError::VersionConflict { actual } => Self::VersionConflict { actual },
        }
    }
}
