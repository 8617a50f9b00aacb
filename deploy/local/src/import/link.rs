//! A link of an import file, independent of the format of the file.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::client::batch::NewLink;

/// Names of the members and columns that make a link.
pub(super) const LINK_MEMBERS: [&str; 8] = [
    "destination_url",
    "slug",
    "short_url",
    "title",
    "tags",
    "external_id",
    "expires_at",
    "expired_url",
];

/// The members of a link that an import creates, under their names in the API.
///
/// The order of the fields is part of the idempotency keys: a new field goes to the end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ImportedLink {
    pub(crate) destination_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slug: Option<String>,
    #[serde(flatten)]
    pub(crate) details: LinkDetails,
}

/// Optional members of a link besides the slug.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LinkDetails {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) external_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expired_url: Option<String>,
}

impl ImportedLink {
    /// Returns the text that the idempotency key is computed from: the address alone, as for a line of
    /// a list of addresses, or all members as JSON.
    pub(super) fn key_text(&self) -> Cow<'_, str> {
        if self.slug.is_none() && self.details == LinkDetails::default() {
            Cow::Borrowed(&self.destination_url)
        } else {
            Cow::Owned(serde_json::to_string(self).expect("texts can be written"))
        }
    }

    /// Makes the item of a batch.
    pub(super) fn item(&self, key: Uuid) -> NewLink {
        let mut item = serde_json::to_value(self).expect("texts can be written");
        item["idempotency_key"] = Value::from(key.hyphenated().to_string());
        NewLink::new(item)
    }
}

/// Returns the slug of an address of this service, whose base may have a path.
pub(crate) fn slug_of_export(short_url: &str) -> Option<&str> {
    let (_, slug) = short_url.rsplit_once('/')?;
    (!slug.is_empty()).then_some(slug)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_text_of_a_bare_address_is_the_address() {
        let mut link = ImportedLink {
            destination_url: "https://example.com/".to_owned(),
            ..ImportedLink::default()
        };
        assert_eq!(link.key_text(), "https://example.com/");
        link.slug = Some("spring".to_owned());
        link.details.tags = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(
            link.key_text(),
            r#"{"destination_url":"https://example.com/","slug":"spring","tags":["a","b"]}"#
        );
    }
}
