//! Requests to change a link, and the decisions on them.

use super::{
    Destination, ExistingLink, Link, LinkCreated, LinkDeleted, LinkDestinationChanged,
    LinkDisabled, LinkEnabled, Slug,
};
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

/// Let a link point elsewhere.
#[derive(Debug, Clone)]
pub struct ChangeDestination {
    /// Where it shall point to; `None` leaves it as it is.
    pub destination: Option<Destination>,
    /// The version that the change was made for.
    pub expected_version: ExpectedVersion,
}

/// Which version of a link a change was made for: `If-Match` (RFC 9110, 13.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Whatever it is.
    Any,
    /// One of these; none at all when what was sent names no version.
    OneOf(Vec<i64>),
}

/// Why a change of a link is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeLinkError {
    /// There is no such link, or none any more.
    #[error("there is no such link")]
    NotFound,
    /// Somebody else has changed it.
    #[error("the link has version {actual}")]
    VersionConflict {
        /// The version that it has.
        actual: i64,
    },
}

impl ExpectedVersion {
    fn check(&self, link: &ExistingLink) -> Result<(), ChangeLinkError> {
        match self {
            Self::OneOf(versions) if !versions.contains(&link.version) => {
                Err(ChangeLinkError::VersionConflict {
                    actual: link.version,
                })
            }
            Self::Any | Self::OneOf(_) => Ok(()),
        }
    }
}

impl Link {
    /// What a creation leads to.
    ///
    /// # Errors
    /// The rule of the domain that forbids it.
    pub fn decide_create(&self, command: CreateLink) -> Result<LinkCreated, CreateLinkError> {
        match self {
            Self::Existing(_) => Err(CreateLinkError::AlreadyExists),
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

/// `Ok(None)`: it is so already, and nothing happens.
impl ExistingLink {
    /// What a change of the destination leads to.
    ///
    /// # Errors
    /// When the link is deleted, or has another version than expected.
    pub fn decide_change_destination(
        &self,
        command: &ChangeDestination,
    ) -> Result<Option<LinkDestinationChanged>, ChangeLinkError> {
        self.require_not_deleted()?;
        command.expected_version.check(self)?;
        let current = &self.state.destination_url;
        let changed = command.destination.as_ref().map(Destination::as_str);
        Ok(changed
            .filter(|destination| destination != current)
            .map(|destination| LinkDestinationChanged {
                link_id: self.created.link_id,
                account_id: self.created.account_id,
                destination_url: destination.to_owned(),
                previous_destination_url: current.clone(),
            }))
    }

    /// What a deletion leads to. A deleted link stays deleted, whatever version is expected.
    ///
    /// # Errors
    /// When the link has another version than expected.
    pub fn decide_delete(
        &self,
        expected_version: &ExpectedVersion,
    ) -> Result<Option<LinkDeleted>, ChangeLinkError> {
        if self.state.deleted {
            return Ok(None);
        }
        expected_version.check(self)?;
        Ok(Some(LinkDeleted {
            link_id: self.created.link_id,
            account_id: self.created.account_id,
            slug: self.created.slug.clone(),
        }))
    }

    /// What an operator's word to take it out of service leads to.
    ///
    /// # Errors
    /// When the link is deleted.
    pub fn decide_disable(&self, reason: &str) -> Result<Option<LinkDisabled>, ChangeLinkError> {
        self.require_not_deleted()?;
        Ok((!self.state.disabled).then(|| LinkDisabled {
            link_id: self.created.link_id,
            account_id: self.created.account_id,
            reason: reason.to_owned(),
        }))
    }

    /// What an operator's word to put it back into service leads to.
    ///
    /// # Errors
    /// When the link is deleted.
    pub fn decide_enable(&self, reason: &str) -> Result<Option<LinkEnabled>, ChangeLinkError> {
        self.require_not_deleted()?;
        Ok(self.state.disabled.then(|| LinkEnabled {
            link_id: self.created.link_id,
            account_id: self.created.account_id,
            reason: reason.to_owned(),
        }))
    }

    fn require_not_deleted(&self) -> Result<(), ChangeLinkError> {
        if self.state.deleted {
            return Err(ChangeLinkError::NotFound);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
