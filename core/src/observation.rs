//! Observations: facts about links that no command caused. Time passed, or clicks were counted.
//!
//! They are events of the account's own stream: none changes the state, the version or the `ETag` of a link.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::{
    id::{AccountId, LinkId},
    link::Expiry,
    timestamp,
};

/// Maximal number of links in one [`LinksClicked`].
pub const LINKS_PER_EVENT_MAX: usize = 100;

/// An event of an account's stream that observes links. Projections must match every variant without a wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservationEvent {
    /// A link expired.
    LinkExpired(LinkExpired),
    /// A human followed a link for the first time.
    LinkFirstClicked(LinkFirstClicked),
    /// Clicks of a minute were counted.
    LinksClicked(LinksClicked),
}

/// A link expired: visitors get its `expired_url`, or 410 Gone.
///
/// The event exists once for each `expires_at` that passes, unless the expiry is changed or the link deleted before the
/// log has the event, some seconds later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LinkExpired {
    /// Account that owns the link.
    pub account_id: AccountId,
    /// Id of the link.
    pub link_id: LinkId,
    /// Instant from which the link no longer leads to its destination.
    #[serde(with = "timestamp")]
    #[schemars(with = "Expiry")]
    pub expires_at: OffsetDateTime,
}

/// A human followed a link for the first time.
///
/// The event exists at most once for each link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LinkFirstClicked {
    /// Account that owns the link.
    pub account_id: AccountId,
    /// Id of the link.
    pub link_id: LinkId,
    /// Time of the first counted click of a human.
    #[serde(with = "timestamp")]
    #[schemars(with = "Expiry")]
    pub clicked_at: OffsetDateTime,
}

/// Clicks of a minute were counted.
///
/// The numbers are increments: clicks that arrive late come as a further event of the same minute, and a reader adds
/// them up. The event exists only for accounts with a webhook that names `link.clicks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LinksClicked {
    /// Account that owns the links.
    pub account_id: AccountId,
    /// Beginning of the minute in which the clicks were made.
    #[serde(with = "timestamp")]
    #[schemars(with = "Expiry")]
    pub minute: OffsetDateTime,
    /// Links with clicks, each once.
    #[schemars(length(min = 1, max = LINKS_PER_EVENT_MAX))]
    pub links: Vec<LinkClicks>,
}

/// Clicks of a link in a minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct LinkClicks {
    /// Id of the link.
    pub link_id: LinkId,
    /// Number of clicks of humans.
    #[schemars(range(min = 0))]
    pub clicks: i64,
    /// Number of clicks of bots.
    #[schemars(range(min = 0))]
    pub bots: i64,
}
