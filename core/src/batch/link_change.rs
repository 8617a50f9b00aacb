//! A change of a link as it waits for its batch, and all that its answer is rendered from.

use time::OffsetDateTime;

use crate::{
    envelope::Metadata,
    field::FieldError,
    id::{AccountId, LinkId},
    link::{ChangeDestination, ExistingLink, ExpectedVersion},
    shard::Position,
};

/// `PATCH` or `DELETE /v1/links/{id}`.
#[derive(Debug, Clone)]
pub struct LinkChange {
    /// Who asks.
    pub account_id: AccountId,
    /// The link; `None` if what the caller wrote is no link's id.
    pub link_id: Option<LinkId>,
    /// What is asked for.
    pub request: ChangeRequest,
    /// Circumstances of the request.
    pub metadata: Metadata,
}

/// What shall become of a link.
#[derive(Debug, Clone)]
pub enum ChangeRequest {
    /// It shall point elsewhere; or what is wrong with the body.
    Destination(Result<ChangeDestination, Vec<FieldError>>),
    /// It shall end.
    Delete(ExpectedVersion),
}

/// A link as of its latest event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledLink {
    /// What it is.
    pub link: ExistingLink,
    /// When it was created.
    pub created_at: OffsetDateTime,
    /// Where its latest event stands.
    pub position: Position,
}
