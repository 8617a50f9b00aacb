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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn debug_output_hides_path_and_query_of_the_destination() {
        let event = LinkEvent::Created(LinkCreated {
            link_id: LinkId::from_uuid(Uuid::nil()),
            account_id: AccountId::from_uuid(Uuid::nil()),
            slug: "spring".to_owned(),
            short_url: "https://sho.rt/spring".to_owned(),
            destination_url: "https://e.com/secret?token=1".to_owned(),
        });
        let shown = format!("{event:?}");
        assert!(shown.contains("destination_url: e.com/…"), "{shown}");
        assert!(
            !shown.contains("secret") && !shown.contains("token"),
            "{shown}"
        );
    }
}
