//! Requests to change a link, and the decision on them.

use super::{Destination, Link, LinkCreated, Slug};
use crate::id::{AccountId, LinkId};

/// Create a link under a slug.
#[derive(Debug, Clone)]
pub struct CreateLink {
    /// The id of the new link.
    pub link_id: LinkId,
    /// Its owner.
    pub account_id: AccountId,
    /// Its slug.
    pub slug: Slug,
    /// Whether the slug is this command's to take.
    pub slug_is_free: bool,
    /// The whole short address.
    pub short_url: String,
    /// Where it points to.
    pub destination: Destination,
}

/// Why a creation is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreateLinkError {
    /// The slug belongs to a link, of whatever account, perhaps a deleted one.
    #[error("the slug is taken")]
    SlugTaken,
    /// The link exists already.
    #[error("the link exists already")]
    AlreadyExists,
}

impl Link {
    /// What a creation leads to.
    ///
    /// # Errors
    /// The rule of the domain that forbids it.
    pub fn decide_create(&self, command: CreateLink) -> Result<LinkCreated, CreateLinkError> {
        match self {
            Self::Active(_) => Err(CreateLinkError::AlreadyExists),
            Self::Absent if !command.slug_is_free => Err(CreateLinkError::SlugTaken),
            Self::Absent => Ok(LinkCreated {
                link_id: command.link_id,
                account_id: command.account_id,
                slug: command.slug.as_str().to_owned(),
                short_url: command.short_url,
                destination_url: command.destination.as_str().to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::link::{LinkEvent, OwnHosts};

    fn create(slug_is_free: bool) -> CreateLink {
        CreateLink {
            link_id: LinkId::from_uuid(Uuid::from_u128(1)),
            account_id: AccountId::from_uuid(Uuid::from_u128(2)),
            slug: Slug::parse("Spring").unwrap(),
            slug_is_free,
            short_url: "https://sho.rt/Spring".to_owned(),
            destination: Destination::parse("https://example.com", &OwnHosts::default()).unwrap(),
        }
    }

    #[test]
    fn given_nothing_when_created_with_a_free_slug_then_the_link_is_active() {
        let created = Link::Absent.decide_create(create(true)).unwrap();
        assert_eq!(created.slug, "Spring");
        assert_eq!(created.destination_url, "https://example.com/");
        let link = Link::Absent.apply(&LinkEvent::Created(created.clone()));
        assert_eq!(link, Link::Active(created));
    }

    #[test]
    fn given_nothing_when_created_with_a_taken_slug_then_it_is_rejected() {
        assert_eq!(
            Link::Absent.decide_create(create(false)),
            Err(CreateLinkError::SlugTaken)
        );
    }

    #[test]
    fn given_a_link_when_created_again_then_it_is_rejected() {
        let created = Link::Absent.decide_create(create(true)).unwrap();
        let link = Link::Absent.apply(&LinkEvent::Created(created));
        assert_eq!(
            link.decide_create(create(true)),
            Err(CreateLinkError::AlreadyExists)
        );
    }
}
