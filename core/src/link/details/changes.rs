//! Changes of details: as requested by a merge patch, and as recorded in an event.

use serde::{Deserialize, Serialize};

use super::{Expiry, LinkDetails, Tags};
use crate::{
    change::{ValueChange, ValueUpdate},
    link::Destination,
};

/// Details in a merge patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DetailsPatch {
    /// New title.
    pub title: ValueUpdate<String>,
    /// New external id.
    pub external_id: ValueUpdate<String>,
    /// New tags, which replace all tags.
    pub tags: ValueUpdate<Tags>,
    /// New expiry.
    pub expires_at: ValueUpdate<Expiry>,
    /// New destination after the expiry.
    pub expired_url: ValueUpdate<Destination>,
}

/// Changed details of a link; a member that did not change is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
pub struct DetailChanges {
    /// Change of the title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ValueChange<String>")]
    pub title: Option<ValueChange<String>>,
    /// Change of the id in the owner's system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ValueChange<String>")]
    pub external_id: Option<ValueChange<String>>,
    /// Change of the tags; the lists have all tags before and after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ValueChange<Tags>")]
    pub tags: Option<ValueChange<Tags>>,
    /// Change of the expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ValueChange<Expiry>")]
    pub expires_at: Option<ValueChange<Expiry>>,
    /// Change of the destination after the expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ValueChange<String>")]
    pub expired_url: Option<ValueChange<Destination>>,
}

impl DetailsPatch {
    /// Returns the details after the patch. Without an expiry, a destination after the expiry is
    /// removed too.
    pub fn apply_to(&self, details: &LinkDetails) -> LinkDetails {
        let expires_at = self.expires_at.apply_to(details.expires_at);
        let expired_url = self.expired_url.clone();
        let expired_url = expired_url.apply_to(details.expired_url.clone());
        LinkDetails {
            title: self.title.clone().apply_to(details.title.clone()),
            external_id: self
                .external_id
                .clone()
                .apply_to(details.external_id.clone()),
            tags: self.tags.clone().apply_to(details.tags.clone()),
            expires_at,
            expired_url: expires_at.and(expired_url),
        }
    }
}

impl DetailChanges {
    /// Returns the changes between two states of a link; `None` if nothing changes.
    pub fn between(before: &LinkDetails, after: &LinkDetails) -> Option<Self> {
        let changes = Self {
            title: ValueChange::between(before.title.as_ref(), after.title.as_ref()),
            external_id: ValueChange::between(
                before.external_id.as_ref(),
                after.external_id.as_ref(),
            ),
            tags: ValueChange::between(before.tags.as_ref(), after.tags.as_ref()),
            expires_at: ValueChange::between(before.expires_at.as_ref(), after.expires_at.as_ref()),
            expired_url: ValueChange::between(
                before.expired_url.as_ref(),
                after.expired_url.as_ref(),
            ),
        };
        (changes != Self::default()).then_some(changes)
    }

    /// Returns the details after the changes.
    pub fn apply_to(&self, details: &LinkDetails) -> LinkDetails {
        fn after<T: Clone>(change: Option<&ValueChange<T>>, value: Option<&T>) -> Option<T> {
            change.map_or(value, |change| change.to.as_ref()).cloned()
        }
        LinkDetails {
            title: after(self.title.as_ref(), details.title.as_ref()),
            external_id: after(self.external_id.as_ref(), details.external_id.as_ref()),
            tags: after(self.tags.as_ref(), details.tags.as_ref()),
            expires_at: after(self.expires_at.as_ref(), details.expires_at.as_ref()),
            expired_url: after(self.expired_url.as_ref(), details.expired_url.as_ref()),
        }
    }

    /// Returns the details before the changes; `None` if the changes cannot lead to these details.
    pub fn undo(&self, details: &LinkDetails) -> Option<LinkDetails> {
        let before = self.reversed().apply_to(details);
        (self.apply_to(&before) == *details).then_some(before)
    }

    /// Returns the changes in the other direction.
    fn reversed(&self) -> Self {
        fn swap<T: Clone>(change: Option<&ValueChange<T>>) -> Option<ValueChange<T>> {
            change.map(|change| ValueChange {
                from: change.to.clone(),
                to: change.from.clone(),
            })
        }
        Self {
            title: swap(self.title.as_ref()),
            external_id: swap(self.external_id.as_ref()),
            tags: swap(self.tags.as_ref()),
            expires_at: swap(self.expires_at.as_ref()),
            expired_url: swap(self.expired_url.as_ref()),
        }
    }
}
