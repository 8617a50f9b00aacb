//! Clicks: visits of short links, as recorded, published and counted (`docs/clicks.md`).
//!
//! query-api records clicks and publishes them on a topic of their own; projector counts them. The event log has
//! no clicks.

#![warn(missing_docs)]

mod agent;
mod bots;
pub mod buckets;
mod client_address;
pub mod dimension;
pub mod dimension_counts;
mod record;
mod referrer;
mod signals;
pub mod sketch;
pub mod statistics;
pub mod tally;
pub mod top;
pub mod value_statistics;
mod visitor;

use time::OffsetDateTime;

use linkledger_core::{
    id::{AccountId, LinkId},
    shard::murmur2,
};

pub use self::{
    agent::{AgentFamilies, AgentTables},
    bots::{BotPatterns, BotPatternsError},
    client_address::{TrustedProxy, client_address, is_unlisted_proxy},
    referrer::referrer_host,
    signals::{asks_for_privacy, is_prefetch},
    visitor::{VisitorSalt, visitor_hash},
};
pub use linkledger_core::cloud_event::{CLICK_PARTITIONS, CLICKS_TOPIC};

pub use self::{
    dimension::Dimension,
    record::{ClickRecordError, RecordPlace, RecorderId},
};

/// Maximum length of `User-Agent` and of `Referer`, in bytes; the rest is ignored.
pub const HEADER_BYTES_MAX: usize = 512;

/// Returns the beginning of a header value that is looked at.
pub fn cut(value: &[u8]) -> &[u8] {
    &value[..value.len().min(HEADER_BYTES_MAX)]
}

/// Returns the partition of the clicks of a link: the one that Kafka's default partitioner chooses for the
/// key, the text of the link's id.
pub fn click_partition(link_id: LinkId) -> u8 {
    let hash = murmur2(link_id.to_string().as_bytes()) & 0x7fff_ffff;
    u8::try_from(hash % u32::from(CLICK_PARTITIONS)).expect("less than CLICK_PARTITIONS")
}

/// A click: a request for a short link that was answered with a redirect; or, with a count above 1, several
/// clicks of a link, an hour and a kind, whose details were given up when memory was short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Click {
    /// The short link.
    pub link_id: LinkId,
    /// Owner of the link.
    pub account_id: AccountId,
    /// Key of the slug of the link: the slug in lower case.
    pub slug: String,
    /// Instant of the request, in milliseconds; of a merged record, the instant of its first click.
    pub clicked_at: OffsetDateTime,
    /// Probable kind of the visitor.
    pub kind: ClickKind,
    /// Number of clicks in this record, from 1.
    pub count: u32,
    /// Details of a single click; empty in a merged record.
    pub details: ClickDetails,
}

/// Details of a click. Absent details are unknown; `visitor` is absent too if the visitor asked not to be tracked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClickDetails {
    /// Keyed hash of client address and user agent, under the salt of the UTC day and the account.
    pub visitor: Option<u64>,
    /// ISO 3166-1 alpha-2, such as `DE`.
    pub country: Option<String>,
    /// Host of the page with the link, in lower case.
    pub referrer_host: Option<String>,
    /// Family of the browser, such as `Chrome`.
    pub browser: Option<String>,
    /// Family of the operating system, such as `iOS`.
    pub os: Option<String>,
    /// Form of the device.
    pub device: Option<Device>,
}

linkledger_core::named_enum! {
    /// Probable kind of a visitor.
    #[derive(PartialOrd, Ord)]
    pub enum ClickKind {
        /// A person.
        Human = "human",
        /// A crawler, monitor, link preview, prefetch or HTTP library.
        Bot = "bot",
    }
}

linkledger_core::named_enum! {
    /// Form of a device.
    #[derive(PartialOrd, Ord)]
    pub enum Device {
        /// Computer.
        Desktop = "desktop",
        /// Phone.
        Mobile = "mobile",
        /// Tablet.
        Tablet = "tablet",
        /// Any other device, such as a television.
        Other = "other",
    }
}
