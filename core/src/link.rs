//! The link aggregate: its commands, events and state.

pub mod command;
pub mod destination;
pub mod details;
pub mod event;
pub mod members;
pub mod slug;
pub mod state;

pub use command::{ChangeLink, ChangeLinkError, CreateLink, CreateLinkError, ExpectedVersion};
pub use destination::{Destination, OwnHosts};
pub use details::{
    DetailChanges, DetailsPatch, Expiry, LinkDetails, Tags, ValueChange, ValueUpdate,
};
pub use event::*;
pub use members::{LinkDraft, LinkPatch};
pub use slug::Slug;
pub use state::{ExistingLink, Link, LinkState};
