//! Look-ups of links by the names that people type, for operators.

use sqlx::{PgExecutor, PgPool};

use super::{
    links,
    log::{self, StreamPart},
    slugs, unreadable,
};
use linkledger_core::{
    event::{Event, Subject},
    id::{AccountId, LinkId},
    link::{LinkEvent, LinkName, SubjectName},
    shard::Shard,
};

/// Finds the account or the link with a name; `None` if no link has the name. An id is returned
/// without a check that it exists.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_subject(pool: &PgPool, name: &SubjectName) -> sqlx::Result<Option<Subject>> {
    match name {
        SubjectName::Account(account_id) => Ok(Some(Subject::Account(*account_id))),
        SubjectName::Link(name) => Ok(find_link(pool, name).await?.map(Subject::Link)),
    }
}

/// Finds the link with a name; `None` if no link has the name. An id is returned
/// without a check that it exists.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_link(pool: &PgPool, name: &LinkName) -> sqlx::Result<Option<LinkId>> {
    match name {
        LinkName::Id(link_id) => Ok(Some(*link_id)),
        LinkName::Slug(slug) => slugs::find_link(pool, slug).await,
        LinkName::ShortAddress(address) => {
            let Some(link_id) = slugs::find_link(pool, address.slug()).await? else {
                return Ok(None);
            };
            let Some(account_id) = links::find_owner(pool, link_id).await? else {
                return Ok(None);
            };
            let short_url = short_url(pool, account_id, link_id).await?;
            let matches = short_url.is_some_and(|short_url| name.matches_short_url(&short_url));
            Ok(matches.then_some(link_id))
        }
    }
}

/// Reads the short address of a link from its creation; `None` if the account has no such link.
///
/// # Errors
/// Returns an error if the database fails, or this release cannot read the creation.
pub async fn short_url(
    executor: impl PgExecutor<'_>,
    account_id: AccountId,
    link_id: LinkId,
) -> sqlx::Result<Option<String>> {
    let creation = StreamPart {
        before: 2,
        ..StreamPart::newest(Shard::of(account_id), Subject::Link(link_id), 1)
    };
    let events = log::read_stream_backwards(executor, &creation).await?;
    let Some(event) = events.first() else {
        return Ok(None);
    };
    match event.decode().map_err(unreadable)? {
        Event::Link(LinkEvent::Created(created)) => Ok(Some(created.short_url)),
        Event::Link(_)
        | Event::Account(_)
        | Event::ApiKey(_)
        | Event::Webhook(_)
        | Event::Observation(_)
        | Event::Credits(_) => Ok(None),
    }
}
