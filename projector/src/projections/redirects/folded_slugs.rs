//! Slugs of links whose events don't carry them.

use std::collections::{BTreeSet, HashMap};

use linkledger_core::{
    account::AccountEvent, credits::CreditsEvent, event::Event, event_store::log, id::LinkId,
    link::LinkEvent, shard::Shard,
};
use sqlx::PgPool;
use uuid::Uuid;

use crate::projections::DecodedEvent;

/// Folded slugs, by link.
#[derive(Debug, Default)]
pub struct FoldedSlugs(HashMap<Uuid, String>);

impl FoldedSlugs {
    /// The slugs that the events lack, from the beginnings of their links' streams. Asks only if
    /// there are such events.
    ///
    /// # Errors
    /// When the database does not answer, or a stream has no readable beginning.
    pub async fn read(
        pool: &PgPool,
        events: impl Iterator<Item = &DecodedEvent>,
    ) -> sqlx::Result<Self> {
        let links: BTreeSet<(Shard, LinkId)> = events.filter_map(link_without_slug).collect();
        let links: Vec<_> = links.into_iter().collect();
        if links.is_empty() {
            return Ok(Self::default());
        }
        let mut slugs = HashMap::with_capacity(links.len());
        for beginning in log::link_beginnings(pool, &links).await? {
            let event = beginning
                .decode()
                .map_err(|error| sqlx::Error::Decode(error.into()))?;
            if let Event::Link(LinkEvent::Created(created)) = event {
                slugs.insert(beginning.stream_id, fold(&created.slug));
            }
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

    /// The slug of the link that one of the events happened to.
    pub(super) fn of(&self, link_id: LinkId) -> String {
        let slug = self.0.get(&link_id.uuid());
        slug.expect("read for each event that lacks it").clone()
    }
}

/// Without `Slug`: a rule tightened since must not undo what has happened.
pub(super) fn fold(slug: &str) -> String {
    slug.to_ascii_lowercase()
}

fn link_without_slug(event: &DecodedEvent) -> Option<(Shard, LinkId)> {
    let link_id = match &event.event {
        Event::Link(LinkEvent::DestinationChanged(changed)) => changed.link_id,
        Event::Link(LinkEvent::Disabled(disabled)) => disabled.link_id,
        Event::Link(LinkEvent::Enabled(enabled)) => enabled.link_id,
        Event::Link(LinkEvent::Created(_) | LinkEvent::Deleted(_))
        | Event::Account(AccountEvent::Suspended(_) | AccountEvent::Resumed(_))
        | Event::Credits(
            CreditsEvent::Granted(_) | CreditsEvent::Adjusted(_) | CreditsEvent::Charged(_),
        ) => return None,
    };
    Some((event.recorded.shard, link_id))
}
