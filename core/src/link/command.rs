//! Commands on a link, and their decisions.

use time::OffsetDateTime;

use super::{
    Destination, DetailChanges, DetailsPatch, ExistingLink, Expiry, LinkCreated, LinkDeleted,
    LinkDestinationChanged, LinkDetails, LinkDetailsChanged, LinkDraft, LinkEvent, LinkPatch, Slug,
    ValueUpdate,
    members::{EXPIRED_URL, EXPIRES_AT},
};
use crate::{
    field::{FieldCode, FieldError},
    id::{AccountId, LinkId},
};

/// Creates a link under a slug.
#[derive(Debug, Clone)]
pub struct CreateLink {
    /// Id of the new link.
    pub link_id: LinkId,
    /// Account that will own the link.
    pub account_id: AccountId,
    /// Slug of the draft, or a generated slug.
    pub slug: Slug,
    /// True if no other link has the slug.
    pub slug_is_free: bool,
    /// Other link of the account that has the external id of the draft, if any.
    pub external_id_holder: Option<LinkId>,
    /// Time of the decision.
    pub now: OffsetDateTime,
    /// Short address of the link, with scheme and host.
    pub short_url: String,
    /// Link that the client requests.
    pub draft: LinkDraft,
}

/// Reason why a create is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateLinkError {
    /// A member breaks a rule that depends on the time.
    #[error("the member {} is invalid: {}", .0.pointer, .0.code)]
    Invalid(FieldError),
    /// The slug belongs to another link, perhaps a deleted one or one of another account.
    #[error("the slug is taken")]
    SlugTaken,
    /// The external id belongs to another link of the account.
    #[error("the link {holder} has the external id")]
    ExternalIdTaken {
        /// Link with the external id.
        holder: LinkId,
    },
}

/// Changes destination and details of a link.
#[derive(Debug, Clone)]
pub struct ChangeLink {
    /// Requested changes.
    pub patch: LinkPatch,
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
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    /// A member breaks a rule that depends on the link or on the time.
    #[error("the member {} is invalid: {}", .0.pointer, .0.code)]
    Invalid(FieldError),
    /// The owner cannot enable the link.
    #[error("an operator has disabled the link")]
    DisabledByOperator,
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

impl CreateLink {
    /// Decides the create.
    ///
    /// # Errors
    /// Returns [`CreateLinkError`] if the expiry is not in the next 100 years, or slug or external id
    /// are taken.
    pub fn decide(self) -> Result<LinkCreated, CreateLinkError> {
        check_expiry(self.draft.details.expires_at, self.now).map_err(CreateLinkError::Invalid)?;
        if !self.slug_is_free {
            return Err(CreateLinkError::SlugTaken);
        }
        if let Some(holder) = self.external_id_holder {
            return Err(CreateLinkError::ExternalIdTaken { holder });
        }
        Ok(LinkCreated::new(
            self.link_id,
            self.account_id,
            &self.slug,
            self.short_url,
            self.draft,
        ))
    }
}

/// Checks an expiry that is new to a link.
fn check_expiry(expires_at: Option<Expiry>, now: OffsetDateTime) -> Result<(), FieldError> {
    let checked = expires_at.map_or(Ok(()), |expires_at| expires_at.check(now));
    checked.map_err(|code| FieldError::of_member(EXPIRES_AT, code))
}

/// A decision on a link that already has the requested state returns no event.
impl ExistingLink {
    /// Decides a change. Returns at most three events: on the destination, on the details, and on the
    /// service.
    ///
    /// # Errors
    /// Returns [`ChangeLinkError`] if the link is deleted, has another version than expected, would
    /// get an invalid expiry, or is disabled by an operator and to be enabled.
    pub fn decide_change(
        &self,
        command: &ChangeLink,
        now: OffsetDateTime,
    ) -> Result<Vec<LinkEvent>, ChangeLinkError> {
        self.require_not_deleted()?;
        command.expected_version.check(self)?;
        let details = self.patched_details(&command.patch.details, now);
        let details = details.map_err(ChangeLinkError::Invalid)?;
        let service = match command.patch.disabled {
            Some(is_disabled) => self.set_disabled_by_owner(is_disabled)?,
            None => None,
        };
        let destination = self.change_of_destination(command.patch.destination.as_ref());
        let destination = destination.map(LinkEvent::DestinationChanged);
        let changes = DetailChanges::between(&self.state.details, &details);
        let details = changes.map(|changes| {
            LinkEvent::DetailsChanged(LinkDetailsChanged {
                link_id: self.link_id,
                account_id: self.account_id,
                changes,
            })
        });
        Ok([destination, details, service]
            .into_iter()
            .flatten()
            .collect())
    }

    fn change_of_destination(
        &self,
        destination: Option<&Destination>,
    ) -> Option<LinkDestinationChanged> {
        let current = &self.state.destination_url;
        destination
            .filter(|destination| *destination != current)
            .map(|destination| LinkDestinationChanged {
                link_id: self.link_id,
                account_id: self.account_id,
                destination_url: destination.clone(),
                previous_destination_url: current.clone(),
            })
    }

    /// Returns the details after the patch. The expiry that the link already has is valid, even in
    /// the past.
    fn patched_details(
        &self,
        patch: &DetailsPatch,
        now: OffsetDateTime,
    ) -> Result<LinkDetails, FieldError> {
        let before = &self.state.details;
        let after = patch.apply_to(before);
        if after.expires_at != before.expires_at {
            check_expiry(after.expires_at, now)?;
        }
        if matches!(patch.expired_url, ValueUpdate::Set(_)) && after.expires_at.is_none() {
            let code = FieldCode::ExpiredUrlWithoutExpiresAt;
            return Err(FieldError::of_member(EXPIRED_URL, code));
        }
        Ok(after)
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
            link_id: self.link_id,
            account_id: self.account_id,
            slug: self.state.slug.clone(),
        }))
    }

    pub(super) fn require_not_deleted(&self) -> Result<(), ChangeLinkError> {
        if self.state.deleted {
            return Err(ChangeLinkError::NotFound);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
