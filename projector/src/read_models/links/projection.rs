//! Projection `links`: tables `read_model.links` and `read_model.link_tags`.
//!
//! The owner can list and read a disabled link; a deleted link has no row.

use std::collections::BTreeMap;

use linkledger_core::{
    account::AccountEvent,
    event::Event,
    link::{DisabledBy, LinkEvent, ValueUpdate},
};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    detail_columns::{DetailColumns, DetailUpdate},
    tags::ChangedTags,
};
use crate::read_models::{Creation, DecodedEvent};

/// Key of the table: generation, account, link.
type Key = (i32, Uuid, Uuid);

/// Changes of rows, by key; `None` deletes the row. All events of one link lead to one change.
#[derive(Debug, Default)]
pub struct LinkRows<'a>(BTreeMap<Key, Option<Change<'a>>>);

#[derive(Debug, Clone, Copy)]
struct Change<'a> {
    /// Slug and time of the creation, if the link was created in this batch: the whole row is known.
    created: Option<(&'a str, OffsetDateTime)>,
    /// `None` keeps the destination.
    destination_url: Option<&'a str>,
    details: DetailUpdate<'a>,
    disabled_by: ValueUpdate<DisabledBy>,
    version: i64,
}

impl Change<'_> {
    /// Returns a change of the version alone.
    fn to_version(version: i64) -> Self {
        Self {
            created: None,
            destination_url: None,
            details: DetailUpdate::default(),
            disabled_by: ValueUpdate::Keep,
            version,
        }
    }
}

impl<'a> LinkRows<'a> {
    pub(crate) fn project(&mut self, generation: i32, event: &'a DecodedEvent) {
        let recorded = &event.recorded;
        let key = (generation, recorded.account_id.uuid(), recorded.stream_id);
        match &event.event {
            Event::Link(LinkEvent::Created(created)) => {
                let change = Change {
                    created: Some((&created.slug, recorded.recorded_at)),
                    destination_url: Some(&created.destination_url),
                    details: DetailUpdate::of_creation(created),
                    disabled_by: ValueUpdate::Remove,
                    version: recorded.version,
                };
                self.0.insert(key, Some(change));
            }
            Event::Link(LinkEvent::DestinationChanged(changed)) => {
                let change = Change {
                    destination_url: Some(&changed.destination_url),
                    ..Change::to_version(recorded.version)
                };
                self.update(key, change);
            }
            Event::Link(LinkEvent::DetailsChanged(changed)) => {
                let change = Change {
                    details: DetailUpdate::of_change(&changed.changes),
                    ..Change::to_version(recorded.version)
                };
                self.update(key, change);
            }
            Event::Link(LinkEvent::Disabled(disabled)) => {
                let change = Change {
                    disabled_by: ValueUpdate::Set(disabled.disabled_by),
                    ..Change::to_version(recorded.version)
                };
                self.update(key, change);
            }
            Event::Link(LinkEvent::Enabled(enabled)) => {
                let change = Change {
                    disabled_by: ValueUpdate::to(enabled.disabled_by),
                    ..Change::to_version(recorded.version)
                };
                self.update(key, change);
            }
            // Also for a link that was created in the same batch: in a replay its row may exist.
            Event::Link(LinkEvent::Deleted(_)) => {
                self.0.insert(key, None);
            }
            // A suspended account keeps its links, and a link has no price.
            Event::Account(AccountEvent::Suspended(_) | AccountEvent::Resumed(_))
            | Event::Credits(_) => {}
        }
    }

    /// Adds an update to the change of the link. A deleted link stays deleted.
    fn update(&mut self, key: Key, later: Change<'a>) {
        let unchanged = Change::to_version(later.version);
        if let Some(change) = self.0.entry(key).or_insert(Some(unchanged)) {
            change.destination_url = later.destination_url.or(change.destination_url);
            change.details.append(later.details);
            change.disabled_by = later.disabled_by.or(change.disabled_by);
            change.version = later.version;
        }
    }

    pub(crate) async fn write_in_tx(
        &self,
        tx: &mut PgConnection,
        creation: Creation,
    ) -> sqlx::Result<()> {
        let tags = self.changed_tags(creation);
        tags.delete_in_tx(tx).await?;
        let (mut puts, mut updates, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
        for (key, change) in &self.0 {
            match change {
                Some(change) => match change.created {
                    Some(created) => puts.push((*key, created, change)),
                    None => updates.push((*key, change)),
                },
                None => deletes.push(*key),
            }
        }
        put_in_tx(tx, &puts, creation).await?;
        update_in_tx(tx, &updates).await?;
        delete_in_tx(tx, &deletes).await?;
        tags.insert_in_tx(tx).await
    }

    /// Returns the links whose tags may be others after the batch.
    fn changed_tags(&self, creation: Creation) -> ChangedTags {
        let mut tags = ChangedTags::default();
        for (key, change) in &self.0 {
            let is_changed = change.is_none_or(|change| match (change.created, creation) {
                (Some(_), Creation::Insert) => change.details.has_tags(),
                // The row may exist, with tags of later events.
                (Some(_), Creation::Put) => true,
                (None, _) => change.details.changes_tags(),
            });
            if is_changed {
                tags.push(*key);
            }
        }
        tags
    }
}

async fn put_in_tx(
    tx: &mut PgConnection,
    rows: &[(Key, (&str, OffsetDateTime), &Change<'_>)],
    creation: Creation,
) -> sqlx::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let generations: Vec<i32> = rows.iter().map(|(key, ..)| key.0).collect();
    let account_ids: Vec<Uuid> = rows.iter().map(|(key, ..)| key.1).collect();
    let link_ids: Vec<Uuid> = rows.iter().map(|(key, ..)| key.2).collect();
    let slugs: Vec<&str> = rows.iter().map(|(_, created, _)| created.0).collect();
    let destination_urls: Vec<Option<&str>> =
        rows.iter().map(|(.., row)| row.destination_url).collect();
    let versions: Vec<i64> = rows.iter().map(|(.., row)| row.version).collect();
    let created_at: Vec<OffsetDateTime> = rows.iter().map(|(_, created, _)| created.1).collect();
    let details: Vec<_> = rows.iter().map(|(.., row)| &row.details).collect();
    let details = DetailColumns::of(&details);
    let disabled_by: Vec<Option<&str>> = rows
        .iter()
        .map(|(.., row)| row.disabled_by.value().map(DisabledBy::name))
        .collect();
    macro_rules! put {
        ($on_conflict:literal) => {
            sqlx::query!(
                "
                INSERT INTO read_model.links
                    (generation, account_id, link_id, slug, destination_url, version, created_at,
                     title, external_id, tags, expires_at, expired_url, disabled_by)
                SELECT generation, account_id, link_id, slug, destination_url, version, created_at,
                       title, external_id, string_to_array(tags, ','), expires_at, expired_url,
                       disabled_by
                FROM unnest($1::integer[], $2::uuid[], $3::uuid[], $4::text[], $5::text[],
                            $6::bigint[], $7::timestamptz[], $8::text[], $9::text[], $10::text[],
                            $11::timestamptz[], $12::text[], $13::text[])
                    AS new (generation, account_id, link_id, slug, destination_url, version,
                            created_at, title, external_id, tags, expires_at, expired_url,
                            disabled_by)
                " + $on_conflict,
                &generations,
                &account_ids,
                &link_ids,
                &slugs as &[&str],
                &destination_urls as &[Option<&str>],
                &versions,
                &created_at,
                &details.titles as &[Option<&str>],
                &details.external_ids as &[Option<&str>],
                &details.tags as &[Option<String>],
                &details.expires_at as &[Option<OffsetDateTime>],
                &details.expired_urls as &[Option<&str>],
                &disabled_by as &[Option<&str>]
            )
            .execute(tx)
            .await?
        };
    }
    match creation {
        Creation::Insert => put!(""),
        Creation::Put => put!(
            "ON CONFLICT (generation, account_id, link_id) DO UPDATE
             SET slug = excluded.slug, destination_url = excluded.destination_url,
                 version = excluded.version, created_at = excluded.created_at,
                 title = excluded.title, external_id = excluded.external_id, tags = excluded.tags,
                 expires_at = excluded.expires_at, expired_url = excluded.expired_url,
                 disabled_by = excluded.disabled_by"
        ),
    };
    Ok(())
}

async fn update_in_tx(tx: &mut PgConnection, rows: &[(Key, &Change<'_>)]) -> sqlx::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let generations: Vec<i32> = rows.iter().map(|(key, _)| key.0).collect();
    let account_ids: Vec<Uuid> = rows.iter().map(|(key, _)| key.1).collect();
    let link_ids: Vec<Uuid> = rows.iter().map(|(key, _)| key.2).collect();
    let destination_urls: Vec<Option<&str>> =
        rows.iter().map(|(_, row)| row.destination_url).collect();
    let versions: Vec<i64> = rows.iter().map(|(_, row)| row.version).collect();
    let details: Vec<_> = rows.iter().map(|(_, row)| &row.details).collect();
    let changed_columns: Vec<String> = details.iter().map(|row| row.changed_columns()).collect();
    let details = DetailColumns::of(&details);
    let keep_disabled_by: Vec<bool> = rows
        .iter()
        .map(|(_, row)| row.disabled_by.is_keep())
        .collect();
    let disabled_by: Vec<Option<&str>> = rows
        .iter()
        .map(|(_, row)| row.disabled_by.value().map(DisabledBy::name))
        .collect();
    sqlx::query!(
        "
        UPDATE read_model.links AS l
        SET destination_url = coalesce(later.destination_url, l.destination_url),
            version = later.version,
            title = CASE WHEN 'title' = ANY(later.changed) THEN later.title ELSE l.title END,
            external_id = CASE WHEN 'external_id' = ANY(later.changed) THEN later.external_id
                               ELSE l.external_id END,
            tags = CASE WHEN 'tags' = ANY(later.changed) THEN string_to_array(later.tags, ',')
                        ELSE l.tags END,
            expires_at = CASE WHEN 'expires_at' = ANY(later.changed) THEN later.expires_at
                              ELSE l.expires_at END,
            expired_url = CASE WHEN 'expired_url' = ANY(later.changed) THEN later.expired_url
                               ELSE l.expired_url END,
            disabled_by = CASE WHEN later.keep_disabled_by THEN l.disabled_by
                               ELSE later.disabled_by END
        FROM (
            SELECT generation, account_id, link_id, destination_url, version,
                   string_to_array(changed, ' ') AS changed, title, external_id, tags, expires_at,
                   expired_url, keep_disabled_by, disabled_by
            FROM unnest($1::integer[], $2::uuid[], $3::uuid[], $4::text[], $5::bigint[],
                        $6::text[], $7::text[], $8::text[], $9::text[], $10::timestamptz[],
                        $11::text[], $12::boolean[], $13::text[])
                AS given (generation, account_id, link_id, destination_url, version, changed,
                          title, external_id, tags, expires_at, expired_url, keep_disabled_by,
                          disabled_by)
        ) AS later
        WHERE l.generation = later.generation AND l.account_id = later.account_id
          AND l.link_id = later.link_id
        ",
        &generations,
        &account_ids,
        &link_ids,
        &destination_urls as &[Option<&str>],
        &versions,
        &changed_columns,
        &details.titles as &[Option<&str>],
        &details.external_ids as &[Option<&str>],
        &details.tags as &[Option<String>],
        &details.expires_at as &[Option<OffsetDateTime>],
        &details.expired_urls as &[Option<&str>],
        &keep_disabled_by,
        &disabled_by as &[Option<&str>]
    )
    .execute(tx)
    .await?;
    Ok(())
}

async fn delete_in_tx(tx: &mut PgConnection, keys: &[Key]) -> sqlx::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let generations: Vec<i32> = keys.iter().map(|key| key.0).collect();
    let account_ids: Vec<Uuid> = keys.iter().map(|key| key.1).collect();
    let link_ids: Vec<Uuid> = keys.iter().map(|key| key.2).collect();
    sqlx::query!(
        "
        DELETE FROM read_model.links AS l
        USING unnest($1::integer[], $2::uuid[], $3::uuid[])
            AS gone (generation, account_id, link_id)
        WHERE l.generation = gone.generation AND l.account_id = gone.account_id
          AND l.link_id = gone.link_id
        ",
        &generations,
        &account_ids,
        &link_ids
    )
    .execute(tx)
    .await?;
    Ok(())
}
