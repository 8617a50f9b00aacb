//! A link, derived from the events of its stream: the one fold.
//!
//! Each event describes the whole link after it: a creation by its payload and its time, every other
//! event by the [`LinkState`] in its metadata. So the last event of a stream is enough, for a command as
//! well as for a projection (`docs/adr/0022-state-with-each-event.md`).

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Destination, LinkCreated, LinkDetails, LinkEvent, slug};
use crate::{
    id::{AccountId, LinkId},
    timestamp,
};

/// A link that was created, and possibly deleted since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingLink {
    /// Id of the link.
    pub link_id: LinkId,
    /// Account that owns the link.
    pub account_id: AccountId,
    /// Number of events in the link's stream; shown as `ETag`.
    pub version: i64,
    /// State of the link.
    pub state: LinkState,
}

/// Whole state of a link after one of its events.
// Unknown members are an error: whoever decides or projects must know the whole link.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkState {
    /// Last part of the short address, as chosen or generated. Never changes.
    #[schemars(length(min = slug::LENGTH_MIN, max = slug::LENGTH_MAX), regex(pattern = slug::PATTERN))]
    pub slug: String,
    /// Time of the creation. Never changes.
    #[serde(with = "timestamp")]
    #[schemars(with = "super::Expiry")]
    pub created_at: OffsetDateTime,
    /// Current destination: an `http` or `https` URL, as the URL standard serialises it.
    pub destination_url: Destination,
    /// True if an operator has disabled the link. Absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled_by_operator: bool,
    /// True if the owner has disabled the link. Absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled_by_owner: bool,
    /// True if the owner has deleted the link. Absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// Details. Absent if the link has none.
    #[serde(default, skip_serializing_if = "LinkDetails::is_empty")]
    pub details: LinkDetails,
}

impl ExistingLink {
    /// Returns a link right after its creation at the given time.
    pub fn new(created: &LinkCreated, created_at: OffsetDateTime) -> Self {
        Self {
            link_id: created.link_id,
            account_id: created.account_id,
            version: 1,
            state: LinkState::new(created, created_at),
        }
    }

    /// Returns the link after one more event. Never fails: an event is a fact.
    #[must_use]
    pub fn apply(mut self, event: &LinkEvent) -> Self {
        self.version += 1;
        let state = &mut self.state;
        match event {
            // Unreachable: a stream has one `LinkCreated`. A second one would reset the link.
            LinkEvent::Created(created) => *state = LinkState::new(created, state.created_at),
            LinkEvent::DestinationChanged(changed) => {
                state.destination_url.clone_from(&changed.destination_url);
            }
            LinkEvent::DetailsChanged(changed) => {
                state.details = changed.changes.apply_to(&state.details);
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
    /// Returns the state of a link right after its creation at the given time.
    pub fn new(created: &LinkCreated, created_at: OffsetDateTime) -> Self {
        Self {
            slug: created.slug.clone(),
            created_at,
            destination_url: created.destination_url.clone(),
            disabled_by_operator: false,
            disabled_by_owner: false,
            deleted: false,
            details: created.details(),
        }
    }

    /// Returns the key of the slug: slugs are case-insensitive. Does not parse a `Slug`, because a
    /// later, stricter rule must not refuse a slug that exists.
    pub fn slug_key(&self) -> String {
        self.slug.to_ascii_lowercase()
    }

    /// Returns the external id that no other link of the account may have; a deleted link holds none.
    pub fn held_external_id(&self) -> Option<&str> {
        let external_id = self.details.external_id.as_deref();
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
            LinkEvent::Deleted(deleted) => {
                (self.deleted && self.slug == deleted.slug).then_some(before)
            }
            _ if self.deleted => None,
            LinkEvent::DestinationChanged(changed) => {
                (self.destination_url == changed.destination_url).then(|| Self {
                    destination_url: changed.previous_destination_url.clone(),
                    ..before
                })
            }
            LinkEvent::DetailsChanged(changed) => Some(Self {
                details: changed.changes.undo(&self.details)?,
                ..before
            }),
            LinkEvent::Disabled(disabled) => {
                let is_so = self.is_disabled_by(disabled.by)
                    && self.disabled_by() == Some(disabled.disabled_by);
                is_so.then(|| before.with_disabled(disabled.by, false))
            }
            LinkEvent::Enabled(enabled) => {
                let is_so =
                    !self.is_disabled_by(enabled.by) && self.disabled_by() == enabled.disabled_by;
                is_so.then(|| before.with_disabled(enabled.by, true))
            }
        }
    }
}
