//! Members of a body that creates or changes a link: their names, and the parser, which reports all
//! errors at once (`docs/api.md#links`, `docs/api.md#errors`).

mod parser;

use self::parser::{MemberParser, NullMember};
use super::{Destination, DestinationRules, DetailsPatch, LinkDetails, Slug};
use crate::{
    field::{FieldCode, FieldError},
    json::JsonObject,
};

/// Name of the member with the destination.
pub const DESTINATION_URL: &str = "destination_url";
/// Name of the member with the chosen slug.
pub const SLUG: &str = "slug";
/// Name of the member with the title.
pub const TITLE: &str = "title";
/// Name of the member with the id in the owner's system.
pub const EXTERNAL_ID: &str = "external_id";
/// Name of the member with the tags.
pub const TAGS: &str = "tags";
/// Name of the member with the expiry.
pub const EXPIRES_AT: &str = "expires_at";
/// Name of the member with the destination after the expiry.
pub const EXPIRED_URL: &str = "expired_url";
/// Name of the member that takes a link out of service.
pub const DISABLED: &str = "disabled";
/// Name of the member with the role that disabled the link.
pub const DISABLED_BY: &str = "disabled_by";
/// Members of the body of a create.
pub const NEW_LINK: &[&str] = &[
    DESTINATION_URL,
    SLUG,
    TITLE,
    EXTERNAL_ID,
    TAGS,
    EXPIRES_AT,
    EXPIRED_URL,
];
/// Members of the body of a change.
const MUTABLE: &[&str] = &[
    DESTINATION_URL,
    TITLE,
    EXTERNAL_ID,
    TAGS,
    EXPIRES_AT,
    EXPIRED_URL,
    DISABLED,
];
/// Members of a link that never change.
const IMMUTABLE: &[&str] = &[SLUG, "id", "short_url", "created_at", DISABLED_BY];
/// Start of the names of members that only the answer to a create has.
const CREDITS_PREFIX: &str = "credits_";

/// The link that a valid body requests.
#[derive(Debug, Clone)]
pub struct LinkDraft {
    /// Slug that the client chose, if any.
    pub slug: Option<Slug>,
    /// Destination of the link.
    pub destination: Destination,
    /// Details of the link. Their expiry may be in the past: the decision compares it with its time.
    pub details: LinkDetails,
}

/// The change that a valid merge patch requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkPatch {
    /// New destination; `None` keeps the current one.
    pub destination: Option<Destination>,
    /// New details.
    pub details: DetailsPatch,
    /// True if the owner disables the link, false if the owner enables it; `None` leaves the link as it is.
    pub disabled: Option<bool>,
}

/// Parses the body of a create.
///
/// # Errors
/// Returns all errors, ordered by member: one for each missing, unknown or invalid member and for
/// each invalid tag.
pub fn parse_new_link(
    object: &JsonObject,
    rules: &DestinationRules,
) -> Result<LinkDraft, Vec<FieldError>> {
    let mut members = MemberParser::of(object, NullMember::NotAllowed);
    let destination = members.set(DESTINATION_URL, |text| Destination::parse(text, rules));
    let slug = members.set(SLUG, Slug::parse);
    let details = members.details(rules);
    if !members.has(DESTINATION_URL) {
        members.refuse(DESTINATION_URL, FieldCode::Required);
    }
    if members.has(EXPIRED_URL) && !members.has(EXPIRES_AT) {
        members.refuse(EXPIRED_URL, FieldCode::ExpiredUrlWithoutExpiresAt);
    }
    members.refuse_others(NEW_LINK);
    match (destination, members.finish()) {
        (Some(destination), Ok(())) => Ok(LinkDraft {
            slug,
            destination,
            details: details.apply_to(&LinkDetails::NONE),
        }),
        (_, Err(errors)) => Err(errors),
        (None, Ok(())) => Err(vec![FieldError::of_member(
            DESTINATION_URL,
            FieldCode::Required,
        )]),
    }
}

/// Parses a merge patch (RFC 7396).
///
/// # Errors
/// Returns all errors, ordered by member: one for each immutable, unknown or invalid member and for
/// each invalid tag.
pub fn parse_patch(
    object: &JsonObject,
    rules: &DestinationRules,
) -> Result<LinkPatch, Vec<FieldError>> {
    let mut members = MemberParser::of(object, NullMember::Removes);
    let destination = members.set(DESTINATION_URL, |text| Destination::parse(text, rules));
    let details = members.details(rules);
    let disabled = members.disabled();
    let is_immutable = |name: &str| IMMUTABLE.contains(&name) || name.starts_with(CREDITS_PREFIX);
    members.refuse_unchangeable(is_immutable, MUTABLE);
    members.finish()?;
    Ok(LinkPatch {
        destination,
        details,
        disabled,
    })
}

#[cfg(test)]
mod tests;
