//! What has happened to a link.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::destination::HostOnly;
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

/// Payload of `LinkCreated`, version 1.
///
/// `Debug` shows the host of the destination only, as that of `Destination` does.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// Payload of `LinkDestinationChanged`, version 1.
///
/// `Debug` shows the hosts of the destinations only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkDestinationChanged {
    /// The link.
    pub link_id: LinkId,
    /// Its owner.
    pub account_id: AccountId,
    /// Where it points to from here on, serialised.
    pub destination_url: String,
    /// Where it pointed to before.
    pub previous_destination_url: String,
}

/// Payload of `LinkDeleted`, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkDeleted {
    /// The link.
    pub link_id: LinkId,
    /// Its owner.
    pub account_id: AccountId,
    /// Its slug, which is never given out again.
    pub slug: String,
}

/// Payload of `LinkDisabled`, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkDisabled {
    /// The link.
    pub link_id: LinkId,
    /// Its owner.
    pub account_id: AccountId,
    /// Why, in the operator's words.
    pub reason: String,
}

/// Payload of `LinkEnabled`, version 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEnabled {
    /// The link.
    pub link_id: LinkId,
    /// Its owner.
    pub account_id: AccountId,
    /// Why, in the operator's words.
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
