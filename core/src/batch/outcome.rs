//! Outcomes of the commands of a batch.

use super::{DryRunOutcome, SettledCreate, SettledLink};
use crate::{
    credits::InsufficientCredits,
    field::FieldError,
    id::LinkId,
    link::{ChangeLinkError, Slug},
};

/// Outcome of one command of a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandOutcome {
    /// The command is accepted: index of its [`AcceptedCommand`](super::AcceptedCommand).
    Accepted(usize),
    /// An earlier command of this batch had the effect: index of its
    /// [`AcceptedCommand`](super::AcceptedCommand).
    AcceptedBefore(usize),
    /// The idempotency key was used by an earlier batch: the answer of that create is replayed.
    Replay(Box<SettledCreate>),
    /// The link already has the requested state.
    Unchanged(Box<SettledLink>),
    /// All creates of an atomic [`BulkCreate`](super::BulkCreate) are accepted, or all are replayed:
    /// outcome of each create.
    Bulk(Vec<CommandOutcome>),
    /// Nothing has changed: outcome of each create of a dry run.
    DryRun(Vec<DryRunOutcome>),
    /// The command is rejected and has no effect.
    Rejected(CommandRejection),
    /// The command must be retried: the generated slug is taken, or the account can pay the link only
    /// because an earlier command of the batch was rejected.
    SlugNotReserved,
}

/// Reason why a command is rejected, in the order of checks (`docs/api.md#order-of-checks`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandRejection {
    /// The idempotency key was used with another body.
    KeyReused,
    /// The body breaks these rules.
    Invalid(Vec<FieldError>),
    /// The account has no such link.
    LinkNotFound,
    /// The link does not have the expected version.
    VersionConflict {
        /// Current version of the link.
        actual: i64,
    },
    /// An operator has disabled the link, which the owner would enable.
    LinkDisabledByOperator,
    /// The chosen slug is taken.
    SlugTaken(Slug),
    /// The chosen external id is taken.
    ExternalIdTaken {
        /// Link with the external id; `None` for an earlier create of the same [`BulkCreate`], which
        /// has no effect.
        ///
        /// [`BulkCreate`]: super::BulkCreate
        holder: Option<LinkId>,
    },
    /// The balance does not cover the price.
    InsufficientCredits(InsufficientCredits),
    /// Creates of an atomic [`BulkCreate`](super::BulkCreate) are rejected, all in one stage of the
    /// order of checks: index of each rejected create, and the reason. Missing credits are those of
    /// all creates together.
    Items(Vec<(usize, CommandRejection)>),
}

impl CommandRejection {
    /// Returns the stage in the order of checks.
    pub(super) const fn stage(&self) -> u8 {
        match self {
            Self::KeyReused | Self::Items(_) => 0,
            Self::Invalid(_) => 1,
            Self::LinkNotFound => 2,
            Self::VersionConflict { .. } => 3,
            Self::LinkDisabledByOperator => 4,
            Self::SlugTaken(_) => 5,
            Self::ExternalIdTaken { .. } => 6,
            Self::InsufficientCredits(_) => 7,
        }
    }
}

impl From<ChangeLinkError> for CommandRejection {
    fn from(error: ChangeLinkError) -> Self {
        match error {
            ChangeLinkError::NotFound => Self::LinkNotFound,
            ChangeLinkError::VersionConflict { actual } => Self::VersionConflict { actual },
            ChangeLinkError::Invalid(error) => Self::Invalid(vec![error]),
            ChangeLinkError::DisabledByOperator => Self::LinkDisabledByOperator,
        }
    }
}
