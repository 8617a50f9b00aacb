//! The link aggregate: what may happen to a link, and what has happened to it.

pub mod command;
pub mod destination;
pub mod event;
pub mod slug;

pub use command::{CreateLink, CreateLinkError};
pub use destination::{Destination, OwnHosts};
pub use event::{LinkCreated, LinkEvent};
pub use slug::Slug;

/// A link, folded from its stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Link {
    /// No event yet.
    #[default]
    Absent,
    /// It can be followed, as it was created.
    Active(LinkCreated),
}

impl Link {
    /// The state after one more event. Total: an event is a fact and is never refused.
    #[must_use]
    pub fn apply(self, event: &LinkEvent) -> Self {
        match event {
            LinkEvent::Created(created) => Self::Active(created.clone()),
        }
    }
}
