//! Slugs of links, for events that carry only the id of the link.

use std::collections::{BTreeSet, HashMap};

use linkledger_core::{
    databases::Databases,
    envelope::RecordedEvent,
    event::Event,
    event_store::{errors::is_of_storage, log},
    id::LinkId,
    link::LinkEvent,
    projection::Projection,
    shard::Shard,
};
use sqlx::PgPool;
use uuid::Uuid;

use crate::read_models::{DecodedEvent, skipped::Skipped};

/// Folded slugs by link; `None` for a link whose creation was skipped and cannot be decoded.
#[derive(Debug, Default)]
pub struct FoldedSlugs(HashMap<Uuid, Option<String>>);

impl FoldedSlugs {
    /// Reads slugs for the events that lack a slug: from the first event of each link's stream. Queries
    /// only if there are such events.
    ///
    /// # Errors
    /// Returns an error if the database fails, or if the creation of a link is absent, or
    /// cannot be read or decoded.
    pub async fn read(
        databases: &Databases,
        events: impl Iterator<Item = &DecodedEvent>,
    ) -> sqlx::Result<Self> {
        let links: BTreeSet<(Shard, LinkId)> = events.filter_map(link_without_slug).collect();
        let links: Vec<_> = links.into_iter().collect();
        if links.is_empty() {
            return Ok(Self::default());
        }
        let mut slugs = HashMap::with_capacity(links.len());
        let beginnings = log::link_beginnings(&databases.log, &links).await;
        for beginning in beginnings.map_err(fault_of_event)? {
            let link_id = beginning.stream_id;
            let slug = match beginning.decode() {
                Ok(Event::Link(LinkEvent::Created(created))) => Some(fold(&created.slug)),
                _ if is_skipped(&databases.read, &beginning).await? => None,
                Ok(_) => continue,
                Err(error) => return Err(sqlx::Error::Decode(error.into())),
            };
            slugs.insert(link_id, slug);
        }
        match links
            .iter()
            .find(|(_, link_id)| !slugs.contains_key(&link_id.uuid()))
        {
            Some((_, link_id)) => Err(sqlx::Error::Decode(
                format!("the event store lacks the creation of `{link_id}`").into(),
            )),
            None => Ok(Self(slugs)),
        }
    }

    /// Returns the slug of a link; `None` if the link has no row.
    ///
    /// # Panics
    /// Panics if the slug was not read for an event of the link.
    pub(super) fn of(&self, link_id: LinkId) -> Option<&str> {
        let slug = self.0.get(&link_id.uuid());
        let slug = slug.expect("read for each event that lacks it");
        slug.as_deref()
    }
}

/// Attributes damage of the log to the event that needs the creation: only its account is parked. As a
/// fault of a table, the damage would pause the projection in all shards.
fn fault_of_event(error: sqlx::Error) -> sqlx::Error {
    if is_of_storage(&error) {
        return sqlx::Error::Decode(error.into());
    }
    error
}

async fn is_skipped(read: &PgPool, event: &RecordedEvent) -> sqlx::Result<bool> {
    let place = event.position..=event.position;
    let skipped = Skipped::within(read, &[(event.shard, place)]).await?;
    Ok(skipped.contains(Projection::Redirects, event))
}

/// Folds a stored slug. Does not parse a `Slug`, because a later, stricter rule must not refuse a
/// slug that exists.
pub(crate) fn fold(slug: &str) -> String {
    slug.to_ascii_lowercase()
}

fn link_without_slug(event: &DecodedEvent) -> Option<(Shard, LinkId)> {
    match &event.event {
        Event::Link(LinkEvent::Created(_) | LinkEvent::Deleted(_))
        | Event::Account(_)
        | Event::Credits(_) => None,
        Event::Link(link_event) => Some((event.recorded.shard, link_event.link_id())),
    }
}
