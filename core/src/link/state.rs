//! A link, folded from its stream.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{LinkCreated, LinkEvent, destination::HostOnly};

/// The aggregate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Link {
    /// No event yet.
    #[default]
    Absent,
    /// It was created; it may have been deleted since.
    Existing(ExistingLink),
}

/// A link that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingLink {
    /// What never changes, and where it pointed to at first.
    pub created: LinkCreated,
    /// Number of events in its stream; shown as its `ETag`.
    pub version: i64,
    /// What may change.
    pub state: LinkState,
}

/// What may change of a link. Each event of its stream but the first carries in its metadata what
/// it is afterwards, so that the first and the last event are the whole link.
///
/// `Debug` shows the host of the destination only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    /// Where it points to, serialised.
    pub destination_url: String,
    /// Taken out of service by an operator.
    pub disabled: bool,
    /// Ended by its owner.
    pub deleted: bool,
}

impl Link {
    /// The state after one more event. Total: an event is a fact and is never refused.
    #[must_use]
    pub fn apply(self, event: &LinkEvent) -> Self {
        match (self, event) {
            (_, LinkEvent::Created(created)) => Self::Existing(ExistingLink::new(created.clone())),
            (Self::Existing(link), event) => Self::Existing(link.apply(event)),
            // No stream begins like that; nothing is known of the link.
            (
                Self::Absent,
                LinkEvent::DestinationChanged(_)
                | LinkEvent::Deleted(_)
                | LinkEvent::Disabled(_)
                | LinkEvent::Enabled(_),
            ) => Self::Absent,
        }
    }
}

impl ExistingLink {
    /// A link right after its creation.
    pub fn new(created: LinkCreated) -> Self {
        let state = LinkState {
            destination_url: created.destination_url.clone(),
            disabled: false,
            deleted: false,
        };
        Self {
            created,
            version: 1,
            state,
        }
    }

    /// The state after one more event.
    #[must_use]
    pub fn apply(mut self, event: &LinkEvent) -> Self {
        self.version += 1;
        let state = &mut self.state;
        match event {
            // A stream is begun once; this would begin it anew.
            LinkEvent::Created(created) => return Self::new(created.clone()),
            LinkEvent::DestinationChanged(changed) => {
                state.destination_url.clone_from(&changed.destination_url);
            }
            LinkEvent::Deleted(_) => state.deleted = true,
            LinkEvent::Disabled(_) => state.disabled = true,
            LinkEvent::Enabled(_) => state.disabled = false,
        }
        self
    }
}

impl fmt::Debug for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkState")
            .field("destination_url", &HostOnly(&self.destination_url))
            .field("disabled", &self.disabled)
            .field("deleted", &self.deleted)
            .finish()
    }
}
