//! Details of a link: optional members for the owner, and the expiry (`docs/api.md#details`).
//!
//! A member without a value is absent everywhere: in events, in states and in answers.

mod changes;
mod values;

use serde::{Deserialize, Serialize};

pub use crate::change::{ValueChange, ValueUpdate};
pub use changes::{DetailChanges, DetailsPatch};
pub use values::{
    EXPIRY_AHEAD_MAX, EXTERNAL_ID_LENGTH_MAX, EXTERNAL_ID_PATTERN, Expiry, TITLE_LENGTH_MAX,
    TITLE_PATTERN, parse_external_id, parse_title,
};

use super::{Destination, Tags};

/// Details of a link.
///
/// Unknown members are an error: a decision on a link must know the whole link.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct LinkDetails {
    /// Title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = TITLE_LENGTH_MAX), regex(pattern = TITLE_PATTERN))]
    pub title: Option<String>,
    /// Id of the link in the owner's system, unique among the links of the account that are not
    /// deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = EXTERNAL_ID_LENGTH_MAX), regex(pattern = EXTERNAL_ID_PATTERN))]
    pub external_id: Option<String>,
    /// Tags, at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Tags")]
    pub tags: Option<Tags>,
    /// Instant from which the link no longer leads to its destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Expiry")]
    pub expires_at: Option<Expiry>,
    /// Destination after the expiry, in the same form as the destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Destination")]
    pub expired_url: Option<Destination>,
}

impl LinkDetails {
    /// Details of a link that has none.
    pub const NONE: Self = Self {
        title: None,
        external_id: None,
        tags: None,
        expires_at: None,
        expired_url: None,
    };

    /// Returns true if no member has a value.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }
}
