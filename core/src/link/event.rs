//! What has happened to a link.

use serde::{Deserialize, Serialize};

use crate::id::{AccountId, LinkId};

/// An event of a link's stream. No projection may match it with a wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// The link came into being.
    Created(LinkCreated),
}

/// Payload of `LinkCreated`, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCreated {
    /// The link.
    pub link_id: LinkId,
    /// Its owner.
    pub account_id: AccountId,
    /// The slug as given.
    pub slug: String,
    /// The whole short address at the time.
    pub short_url: String,
    /// Where it points to, serialised.
    pub destination_url: String,
}
