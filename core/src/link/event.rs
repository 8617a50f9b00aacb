//! Events of a link's stream.

use serde::{Deserialize, Serialize};

use super::{Destination, DetailChanges, DisabledBy, Expiry, LinkDetails, LinkDraft, Slug, Tags};
use super::{destination, details, slug};
use crate::id::{AccountId, LinkId};

/// An event of a link's stream. Every reader matches every variant without a wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// The owner created the link.
    Created(LinkCreated),
    /// The owner changed the destination.
    DestinationChanged(LinkDestinationChanged),
    /// The owner changed details.
    DetailsChanged(LinkDetailsChanged),
    /// The owner deleted the link forever.
    Deleted(LinkDeleted),
    /// The owner or an operator disabled the link.
    Disabled(LinkDisabled),
    /// The owner or an operator enabled the link again.
    Enabled(LinkEnabled),
}

/// A short link was created. Visitors can follow the link from this event on.
///
/// The `CreditsCharged` that pays for the link is at the next position of the same shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LinkCreated {
    /// Id of the link.
    pub link_id: LinkId,
    /// Account that owns the link.
    pub account_id: AccountId,
    /// Last part of the short address, as chosen or generated. Slugs are case-insensitive.
    #[schemars(length(min = slug::LENGTH_MIN, max = slug::LENGTH_MAX), regex(pattern = slug::PATTERN))]
    pub slug: String,
    /// Short address of the link at the time of the event.
    #[schemars(regex(pattern = destination::PATTERN))]
    pub short_url: String,
    /// Destination: an `http` or `https` URL, as the URL standard serialises it.
    pub destination_url: Destination,
    /// Title for people. Absent if the owner gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = details::TITLE_LENGTH_MAX), regex(pattern = details::TITLE_PATTERN))]
    pub title: Option<String>,
    /// Id of the link in the owner's system, unique among the links of the account that are not
    /// deleted. Absent if the owner gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = details::EXTERNAL_ID_LENGTH_MAX), regex(pattern = details::EXTERNAL_ID_PATTERN))]
    pub external_id: Option<String>,
    /// Tags, sorted. Absent if the owner gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Tags")]
    pub tags: Option<Tags>,
    /// Instant from which the link no longer leads to its destination. Absent if the link never
    /// expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Expiry")]
    pub expires_at: Option<Expiry>,
    /// Destination after the expiry. Absent if visitors then receive 410 Gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Destination")]
    pub expired_url: Option<Destination>,
}

/// The owner of a link changed its destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LinkDestinationChanged {
    /// Id of the link.
    pub link_id: LinkId,
    /// Account that owns the link.
    pub account_id: AccountId,
    /// New destination, in the same form as at the link's creation.
    pub destination_url: Destination,
    /// Destination before the change.
    pub previous_destination_url: Destination,
}

/// The owner of a link changed its title, external id, tags or expiry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LinkDetailsChanged {
    /// Id of the link.
    pub link_id: LinkId,
    /// Account that owns the link.
    pub account_id: AccountId,
    /// Changed details, at least one, each with its value before and after the change. A detail
    /// that did not change is absent.
    pub changes: DetailChanges,
}

/// The owner of a link deleted it forever: visitors receive 410 Gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LinkDeleted {
    /// Id of the link.
    pub link_id: LinkId,
    /// Account that owns the link.
    pub account_id: AccountId,
    /// Slug of the link. The slug is never used again.
    #[schemars(length(min = slug::LENGTH_MIN, max = slug::LENGTH_MAX), regex(pattern = slug::PATTERN))]
    pub slug: String,
}

/// The owner or an operator disabled a link: visitors receive 410 Gone.
///
/// The owner still sees the link, and can change and delete it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LinkDisabled {
    /// Id of the link.
    pub link_id: LinkId,
    /// Account that owns the link.
    pub account_id: AccountId,
    /// Reason given by the operator; `by the owner` if the owner disabled the link.
    #[schemars(length(min = 1, max = 200))]
    pub reason: String,
    /// Role of the one who disabled the link.
    pub by: DisabledBy,
    /// Role that the link is disabled by after the event: the operator before the owner if both have
    /// disabled the link.
    pub disabled_by: DisabledBy,
}

/// The owner or an operator enabled a disabled link again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LinkEnabled {
    /// Id of the link.
    pub link_id: LinkId,
    /// Account that owns the link.
    pub account_id: AccountId,
    /// Reason given by the operator; `by the owner` if the owner enabled the link.
    #[schemars(length(min = 1, max = 200))]
    pub reason: String,
    /// Role of the one who enabled the link.
    pub by: DisabledBy,
    /// Role that the link is still disabled by. Absent if visitors can follow the link again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DisabledBy")]
    pub disabled_by: Option<DisabledBy>,
}

impl LinkEvent {
    /// Returns the link that the event concerns.
    pub const fn link_id(&self) -> LinkId {
        match self {
            Self::Created(event) => event.link_id,
            Self::DestinationChanged(event) => event.link_id,
            Self::DetailsChanged(event) => event.link_id,
            Self::Deleted(event) => event.link_id,
            Self::Disabled(event) => event.link_id,
            Self::Enabled(event) => event.link_id,
        }
    }
}

impl LinkCreated {
    /// Returns the creation of the drafted link. `slug` is the slug of the draft or, if the draft
    /// has none, a generated slug.
    pub fn new(
        link_id: LinkId,
        account_id: AccountId,
        slug: &Slug,
        short_url: String,
        draft: LinkDraft,
    ) -> Self {
        let LinkDetails {
            title,
            external_id,
            tags,
            expires_at,
            expired_url,
        } = draft.details;
        Self {
            link_id,
            account_id,
            slug: slug.as_str().to_owned(),
            short_url,
            destination_url: draft.destination,
            title,
            external_id,
            tags,
            expires_at,
            expired_url,
        }
    }

    /// Returns the details with which the link was created.
    pub fn details(&self) -> LinkDetails {
        LinkDetails {
            title: self.title.clone(),
            external_id: self.external_id.clone(),
            tags: self.tags.clone(),
            expires_at: self.expires_at,
            expired_url: self.expired_url.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::link::DestinationRules;

    const LINK: LinkId = LinkId::from_uuid(Uuid::nil());
    const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::nil());

    #[test]
    fn debug_output_hides_path_and_query_of_destinations() {
        let destination =
            Destination::parse("https://e.com/secret?token=1", &DestinationRules::default())
                .unwrap();
        let created = LinkEvent::Created(LinkCreated::new(
            LINK,
            ACCOUNT,
            &Slug::parse("spring").unwrap(),
            "https://sho.rt/spring".to_owned(),
            LinkDraft {
                slug: None,
                destination,
                details: LinkDetails::NONE,
            },
        ));
        let changed = LinkEvent::DestinationChanged(LinkDestinationChanged {
            link_id: LINK,
            account_id: ACCOUNT,
            destination_url: Destination::stored("https://e.com/secret?token=2"),
            previous_destination_url: Destination::stored("https://e.com/secret?token=1"),
        });
        for event in [created, changed] {
            let shown = format!("{event:?}");
            assert!(shown.contains("destination_url: e.com/…"), "{shown}");
            assert!(
                !shown.contains("secret") && !shown.contains("token"),
                "{shown}"
            );
        }
    }
}
