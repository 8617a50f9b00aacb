//! What has happened to a link.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::destination::HostOnly;
#[cfg(feature = "schema")]
use super::{destination, slug};
use crate::id::{AccountId, LinkId};

/// An event of a link's stream. No projection may match it with a wildcard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkEvent {
    /// The link came into being.
    Created(LinkCreated),
    /// Its owner let it point elsewhere.
    DestinationChanged(LinkDestinationChanged),
    /// Its owner ended it, for ever.
    Deleted(LinkDeleted),
    /// An operator took it out of service.
    Disabled(LinkDisabled),
    /// An operator put it back into service.
    Enabled(LinkEnabled),
}

/// A short link was created; visitors can follow it from here on.
///
/// The `CreditsCharged` that pays for it stands at the next position.
// `Debug` shows the host of the destination only, as that of `Destination` does.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkCreated {
    /// The link.
    pub link_id: LinkId,
    /// Its owner.
    pub account_id: AccountId,
    /// The last part of the short address, as given; upper and lower case make no difference.
    #[cfg_attr(feature = "schema", schemars(length(min = slug::LENGTH_MIN, max = slug::LENGTH_MAX), regex(pattern = slug::PATTERN)))]
    pub slug: String,
    /// The whole short address, as it was at the time.
    #[cfg_attr(feature = "schema", schemars(regex(pattern = destination::PATTERN)))]
    pub short_url: String,
    /// Where it points to: an `http` or `https` address as the URL standard serialises it.
    #[cfg_attr(feature = "schema", schemars(length(max = destination::LENGTH_MAX), regex(pattern = destination::PATTERN)))]
    pub destination_url: String,
}

/// The owner of a link let it point elsewhere.
// `Debug` shows the hosts of the destinations only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkDestinationChanged {
    /// The link.
    pub link_id: LinkId,
    /// Its owner.
    pub account_id: AccountId,
    /// Where it points to from here on, in the same form as at its creation.
    #[cfg_attr(feature = "schema", schemars(length(max = destination::LENGTH_MAX), regex(pattern = destination::PATTERN)))]
    pub destination_url: String,
    /// Where it pointed to before.
    #[cfg_attr(feature = "schema", schemars(length(max = destination::LENGTH_MAX), regex(pattern = destination::PATTERN)))]
    pub previous_destination_url: String,
}

/// The owner of a link ended it, for ever: visitors are answered 410 Gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkDeleted {
    /// The link.
    pub link_id: LinkId,
    /// Its owner.
    pub account_id: AccountId,
    /// Its slug, which is never given out again.
    #[cfg_attr(feature = "schema", schemars(length(min = slug::LENGTH_MIN, max = slug::LENGTH_MAX), regex(pattern = slug::PATTERN)))]
    pub slug: String,
}

/// An operator took a link out of service: visitors are answered 410 Gone.
///
/// Its owner still sees it, and can change and delete it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkDisabled {
    /// The link.
    pub link_id: LinkId,
    /// Its owner.
    pub account_id: AccountId,
    /// Why, in the operator's words.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 200)))]
    pub reason: String,
}

/// An operator put a disabled link back into service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkEnabled {
    /// The link.
    pub link_id: LinkId,
    /// Its owner.
    pub account_id: AccountId,
    /// Why, in the operator's words.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 200)))]
    pub reason: String,
}

impl LinkEvent {
    /// The link that it happened to.
    pub const fn link_id(&self) -> LinkId {
        match self {
            Self::Created(event) => event.link_id,
            Self::DestinationChanged(event) => event.link_id,
            Self::Deleted(event) => event.link_id,
            Self::Disabled(event) => event.link_id,
            Self::Enabled(event) => event.link_id,
        }
    }
}

impl fmt::Debug for LinkCreated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkCreated")
            .field("link_id", &self.link_id)
            .field("account_id", &self.account_id)
            .field("slug", &self.slug)
            .field("short_url", &self.short_url)
            .field("destination_url", &HostOnly(&self.destination_url))
            .finish()
    }
}

impl fmt::Debug for LinkDestinationChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkDestinationChanged")
            .field("link_id", &self.link_id)
            .field("account_id", &self.account_id)
            .field("destination_url", &HostOnly(&self.destination_url))
            .field(
                "previous_destination_url",
                &HostOnly(&self.previous_destination_url),
            )
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const LINK: LinkId = LinkId::from_uuid(Uuid::nil());
    const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::nil());

    #[test]
    fn debug_output_hides_path_and_query_of_destinations() {
        let created = LinkEvent::Created(LinkCreated {
            link_id: LINK,
            account_id: ACCOUNT,
            slug: "spring".to_owned(),
            short_url: "https://sho.rt/spring".to_owned(),
            destination_url: "https://e.com/secret?token=1".to_owned(),
        });
        let changed = LinkEvent::DestinationChanged(LinkDestinationChanged {
            link_id: LINK,
            account_id: ACCOUNT,
            destination_url: "https://e.com/secret?token=2".to_owned(),
            previous_destination_url: "https://e.com/secret?token=1".to_owned(),
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
