//! Outcomes of the commands of a commit group.

use std::{collections::HashMap, sync::Arc};

use super::{ChangeResult, CreateResult};
use crate::{
    credits::InsufficientCredits,
    envelope::RecordedEvent,
    field::FieldError,
    id::LinkId,
    link::{ChangeLinkError, Slug},
};

/// Effect of a command, or the decision that the command has none.
pub type Outcome<T> = Result<T, Rejection>;

/// Effect of a create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Link and charge.
    pub settled: Arc<CreateResult>,
    /// True if an earlier create with the same key had the effect.
    pub is_replay: bool,
}

/// Outcome of one command of a commit group, by the kind of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Outcome of a create.
    Create(Outcome<Created>),
    /// Outcome of each create of a [`BatchCreate`](super::BatchCreate). An atomic one is rejected as a whole, or all of
    /// its creates are accepted, or all are replays.
    Batch(Outcome<Vec<Outcome<Created>>>),
    /// Link in the requested state.
    Change(Outcome<Arc<ChangeResult>>),
}

impl CommandOutcome {
    /// Records in the outcomes of a commit group the positions of its events: `appended` are all of them.
    pub fn set_positions<'o>(
        outcomes: impl IntoIterator<Item = &'o mut Self>,
        appended: &[RecordedEvent],
    ) {
        let of_links = appended
            .iter()
            .filter(|event| event.stream_id != event.account_id.uuid());
        let positions: HashMap<_, _> = of_links
            .map(|event| ((event.stream_id, event.version), event.position))
            .collect();
        let position_of = |link_id: LinkId, version| positions.get(&(link_id.uuid(), version));
        let set_position = |created: &mut Created| {
            // The charge follows the first event of the link. A dry run has appended neither.
            if let Some(position) = position_of(created.settled.link.link_id, 1) {
                Arc::make_mut(&mut created.settled).position = position + 1;
            }
        };
        for outcome in outcomes {
            match outcome {
                Self::Create(created) => created.iter_mut().for_each(set_position),
                Self::Batch(creates) => creates
                    .iter_mut()
                    .flatten()
                    .flatten()
                    .for_each(set_position),
                Self::Change(Ok(settled)) => {
                    let link = &settled.link;
                    if let Some(position) = position_of(link.link_id, link.version) {
                        Arc::make_mut(settled).position = *position;
                    }
                }
                Self::Change(Err(_)) => {}
            }
        }
    }
}

/// Reason why a command is rejected, in the order of checks (`docs/api.md#order-of-checks`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
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
        /// Link with the external id; `None` for an earlier create of the same [`BatchCreate`], which
        /// has no effect.
        ///
        /// [`BatchCreate`]: super::BatchCreate
        holder: Option<LinkId>,
    },
    /// The balance does not cover the price.
    InsufficientCredits(InsufficientCredits),
    /// Creates of an atomic [`BatchCreate`](super::BatchCreate) are rejected, all in one stage of the
    /// order of checks: index of each rejected create, and the reason. Missing credits are those of
    /// all creates together.
    Items(Vec<(usize, Rejection)>),
}

impl Rejection {
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

impl From<ChangeLinkError> for Rejection {
    fn from(error: ChangeLinkError) -> Self {
        match error {
            ChangeLinkError::NotFound => Self::LinkNotFound,
            ChangeLinkError::VersionConflict { actual } => Self::VersionConflict { actual },
            ChangeLinkError::Invalid(error) => Self::Invalid(vec![error]),
            ChangeLinkError::DisabledByOperator => Self::LinkDisabledByOperator,
        }
    }
}
