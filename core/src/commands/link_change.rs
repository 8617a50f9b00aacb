//! Commands that change a link, and their result, from which answers are rendered.

use time::OffsetDateTime;

use super::{DecisionInput, Outcome, Rejection};
use crate::{
    envelope::{Metadata, NewEvent},
    field::FieldError,
    id::{AccountId, LinkId},
    link::{ChangeLink, ExistingLink, ExpectedVersion, LinkEvent},
    shard::Position,
};

/// A change: `PATCH` or `DELETE /v1/links/{id}`.
#[derive(Debug, Clone)]
pub struct LinkChange {
    /// Account of the caller.
    pub account_id: AccountId,
    /// Id of the link; `None` if the id in the path is malformed.
    pub link_id: Option<LinkId>,
    /// Requested change.
    pub request: ChangeRequest,
    /// Metadata of the request.
    pub metadata: Metadata,
}

/// The requested change of a link.
#[derive(Debug, Clone)]
pub enum ChangeRequest {
    /// Changes destination, details or `disabled`; has the errors of an invalid body, because a full
    /// queue is reported first.
    Patch(Result<ChangeLink, Vec<FieldError>>),
    /// Deletes the link.
    Delete(ExpectedVersion),
}

/// A link with the position of its latest event, before or after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeResult {
    /// State of the link.
    pub link: ExistingLink,
    /// Position of the link's latest event; 0 until the event is appended.
    pub position: Position,
}

impl LinkChange {
    /// Returns the new events, each with the link after the event.
    ///
    /// # Panics
    /// Panics if there are more than [`EVENTS_MAX`](super::EVENTS_MAX) events: none may be dropped.
    pub(super) fn events(
        &self,
        ids: &DecisionInput,
        events: Vec<(LinkEvent, ExistingLink)>,
    ) -> impl Iterator<Item = NewEvent> {
        assert!(
            events.len() <= ids.event_ids.len(),
            "each event needs an id"
        );
        let events = events.into_iter().zip(ids.event_ids);
        events.map(move |((event, after), event_id)| {
            let metadata = self.metadata.clone();
            NewEvent::of_link(event_id, ids.now, event, &after, metadata)
        })
    }
}

impl ChangeRequest {
    /// Decides the events of the change; none if the link already has the requested state.
    pub(super) fn decide(
        &self,
        link: &ExistingLink,
        now: OffsetDateTime,
    ) -> Outcome<Vec<LinkEvent>> {
        match self {
            Self::Patch(Ok(change)) => Ok(link.decide_change(change, now)?),
            Self::Patch(Err(errors)) => Err(Rejection::Invalid(errors.clone())),
            Self::Delete(expected) => {
                let deleted = link.decide_delete(expected)?;
                Ok(deleted.map(LinkEvent::Deleted).into_iter().collect())
            }
        }
    }
}
