//! The link aggregate: its commands, events and state.

pub mod command;
pub mod destination;
pub mod details;
pub mod disabled;
pub mod event;
pub mod members;
pub mod name;
pub mod printed_slug;
pub mod slug;
pub mod state;
pub mod tag;

pub use command::{ChangeLink, ChangeLinkError, CreateLink, CreateLinkError, ExpectedVersion};
pub use destination::{
    Destination, DestinationHost, DestinationHosts, DestinationRules, DestinationSchemes,
};
pub use details::{DetailChanges, DetailsPatch, Expiry, LinkDetails, ValueChange, ValueUpdate};
pub use disabled::DisabledBy;
pub use event::*;
pub use members::{LinkDraft, LinkPatch};
pub use name::{LinkName, SubjectName};
pub use slug::{Slug, SlugPrefix};
pub use state::{ExistingLink, LinkState};
pub use tag::{Tags, parse_tag};
