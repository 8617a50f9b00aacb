//! A link, derived from the events of its stream.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{LinkCreated, LinkDetails, LinkEvent, destination::HostOnly};

/// The link aggregate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "almost every link exists")]
pub enum Link {
    /// The stream has no event.
    #[default]
    Absent,
    /// The link was created, and possibly deleted since.
    Existing(ExistingLink),
}

/// A link that was created, and possibly deleted since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingLink {
    /// First event of the link: immutable fields, and the first destination.
    pub created: LinkCreated,
    /// Number of events in the link's stream; shown as `ETag`.
    pub version: i64,
    /// Mutable fields of the link.
    pub state: LinkState,
}

/// Mutable fields of a link. Each event of a link but the first keeps the new state in its
/// metadata, so the first and the last event describe the whole link.
///
/// `Debug` shows the host of the destination only.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LinkState {
    /// Current destination, serialised.
    pub destination_url: String,
    /// True if an operator has disabled the link.
    pub disabled: bool,
    /// True if the owner has disabled the link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled_by_owner: bool,
    /// True if the owner has deleted the link.
    pub deleted: bool,
    /// Details of the link; `None` if the link never had any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<LinkDetails>,
}

impl Link {
    /// Returns the state after one more event. Never fails: an event is a fact.
    #[must_use]
    pub fn apply(self, event: &LinkEvent) -> Self {
        match (self, event) {
            (_, LinkEvent::Created(created)) => Self::Existing(ExistingLink::new(created.clone())),
            (Self::Existing(link), event) => Self::Existing(link.apply(event)),
            // Unreachable: every stream starts with `LinkCreated`.
            (Self::Absent, _) => Self::Absent,
        }
    }
}

impl ExistingLink {
    /// Returns a link right after its creation.
    pub fn new(created: LinkCreated) -> Self {
        Self {
            state: LinkState::new(&created),
            created,
            version: 1,
        }
    }

    /// Returns the state after one more event.
    #[must_use]
    pub fn apply(mut self, event: &LinkEvent) -> Self {
        self.version += 1;
        let state = &mut self.state;
        match event {
            // Unreachable: a stream has one `LinkCreated`. A second one would reset the link.
            LinkEvent::Created(created) => return Self::new(created.clone()),
            LinkEvent::DestinationChanged(changed) => {
                state.destination_url.clone_from(&changed.destination_url);
            }
            LinkEvent::DetailsChanged(changed) => {
                state.details = Some(changed.changes.apply_to(state.details()));
            }
            LinkEvent::Deleted(_) => state.deleted = true,
            LinkEvent::Disabled(disabled) => {
                self.state = self.state.with_disabled(disabled.by, true);
            }
            LinkEvent::Enabled(enabled) => {
                self.state = self.state.with_disabled(enabled.by, false);
            }
        }
        self
    }
}

impl LinkState {
    /// Returns the state of a link right after its creation.
    pub fn new(created: &LinkCreated) -> Self {
        Self {
            destination_url: created.destination_url.clone(),
            disabled: false,
            disabled_by_owner: false,
            deleted: false,
            details: Some(created.details()).filter(|details| !details.is_empty()),
        }
    }

    /// Returns the details; empty if the link has none.
    pub fn details(&self) -> &LinkDetails {
        self.details.as_ref().unwrap_or(&LinkDetails::NONE)
    }

    /// Returns the external id that no other link of the account may have; a deleted link holds none.
    pub fn held_external_id(&self) -> Option<&str> {
        let external_id = self.details().external_id.as_deref();
        external_id.filter(|_| !self.deleted)
    }

    /// Returns the state before the event that led to this state; `None` if the event cannot lead to
    /// this state.
    ///
    /// An event must carry each value that the event replaces: `log verify` keeps only a hash of the
    /// state before.
    pub fn undo(&self, event: &LinkEvent) -> Option<Self> {
        // No event follows a deletion, so the link was not deleted before.
        let before = Self {
            deleted: false,
            ..self.clone()
        };
        match event {
            LinkEvent::Created(_) => None,
            LinkEvent::Deleted(_) => self.deleted.then_some(before),
            _ if self.deleted => None,
            LinkEvent::DestinationChanged(changed) => {
                (self.destination_url == changed.destination_url).then(|| Self {
                    destination_url: changed.previous_destination_url.clone(),
                    ..before
                })
            }
            LinkEvent::DetailsChanged(changed) => {
                let details = changed.changes.undo(self.details.as_ref()?)?;
                Some(Self {
                    details: Some(details),
                    ..before
                })
            }
            LinkEvent::Disabled(disabled) => self
                .is_disabled_by(disabled.by)
                .then(|| before.with_disabled(disabled.by, false)),
            LinkEvent::Enabled(enabled) => {
                (!self.is_disabled_by(enabled.by)).then(|| before.with_disabled(enabled.by, true))
            }
        }
    }
}

impl fmt::Debug for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkState")
            .field("destination_url", &HostOnly(&self.destination_url))
            .field("disabled", &self.disabled)
            .field("disabled_by_owner", &self.disabled_by_owner)
            .field("deleted", &self.deleted)
            .field("details", &self.details)
            .finish()
    }
}
