//! Commands on a link, and their decisions.

use super::{
    Destination, ExistingLink, Link, LinkCreated, LinkDeleted, LinkDestinationChanged,
    LinkDisabled, LinkDraft, LinkEnabled, Slug,
};
use crate::id::{AccountId, LinkId};

/// Creates a link under a slug.
#[derive(Debug, Clone)]
pub struct CreateLink {
    /// Id of the new link.
    pub link_id: LinkId,
    /// Account that will own the link.
    pub account_id: AccountId,
    /// Slug of the draft, or a generated slug.
    pub slug: Slug,
    /// True if the slug is reserved for this command.
    pub slug_is_free: bool,
    /// Short address of the link, with scheme and host.
    pub short_url: String,
    /// Link that the client requests.
    pub draft: LinkDraft,
}

/// Reason why a create is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreateLinkError {
    /// The slug belongs to another link, perhaps a deleted one or one of another account.
    #[error("the slug is taken")]
    SlugTaken,
    /// The link already exists.
    #[error("the link already exists")]
    AlreadyExists,
}

/// Changes the destination of a link.
#[derive(Debug, Clone)]
pub struct ChangeDestination {
    /// New destination; `None` keeps the current one.
    pub destination: Option<Destination>,
    /// Versions that the client expects the link to have.
    pub expected_version: ExpectedVersion,
}

/// Versions that a client expects a link to have: `If-Match` (RFC 9110, 13.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Any version.
    Any,
    /// One of these versions; empty if the header names no version, so that no version matches.
    OneOf(Vec<i64>),
}

/// Reason why a change of a link is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeLinkError {
    /// The link does not exist or is deleted.
    #[error("there is no such link")]
    NotFound,
    /// The link was changed by another request.
    #[error("the link has version {actual}")]
    VersionConflict {
        /// Current version of the link.
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
    /// Decides a create.
    ///
    /// # Errors
    /// Returns [`CreateLinkError`] if the link already exists or the slug is taken.
    pub fn decide_create(&self, command: CreateLink) -> Result<LinkCreated, CreateLinkError> {
        match self {
            Self::Existing(_) => Err(CreateLinkError::AlreadyExists),
            Self::Absent if !command.slug_is_free => Err(CreateLinkError::SlugTaken),
            Self::Absent => Ok(LinkCreated::new(
                command.link_id,
                command.account_id,
                &command.slug,
                command.short_url,
                command.draft,
            )),
        }
    }
}

/// Each decision returns `Ok(None)` if the link already has the requested state.
impl ExistingLink {
    /// Decides a change of the destination.
    ///
    /// # Errors
    /// Returns [`ChangeLinkError`] if the link is deleted or has another version than expected.
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

    /// Decides a deletion. Deleting a deleted link does nothing, regardless of the expected
    /// version.
    ///
    /// # Errors
    /// Returns [`ChangeLinkError`] if the link has another version than expected.
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

    /// Decides that an operator disables the link.
    ///
    /// # Errors
    /// Returns [`ChangeLinkError`] if the link is deleted.
    pub fn decide_disable(&self, reason: &str) -> Result<Option<LinkDisabled>, ChangeLinkError> {
        self.require_not_deleted()?;
        Ok((!self.state.disabled).then(|| LinkDisabled {
            link_id: self.created.link_id,
            account_id: self.created.account_id,
            reason: reason.to_owned(),
        }))
    }

    /// Decides that an operator enables the link again.
    ///
    /// # Errors
    /// Returns [`ChangeLinkError`] if the link is deleted.
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
