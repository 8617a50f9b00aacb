//! Projection `links`: table `read_model.links`.
//!
//! The owner can list and read a disabled link; a deleted link has no row.

use std::collections::BTreeMap;

use linkledger_core::{
    account::AccountEvent, credits::CreditsEvent, event::Event, link::LinkEvent,
};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::read_models::{Creation, DecodedEvent};

/// Key of the table: generation, account, link.
type Key = (i32, Uuid, Uuid);

/// Changes of rows, by key. All events of one link lead to one change.
#[derive(Debug, Default)]
pub struct LinkRows<'a>(BTreeMap<Key, Change<'a>>);

#[derive(Debug)]
enum Change<'a> {
    /// The link was created in this batch: the whole row is known.
    Put(LinkRow<'a>),
    /// The link was created before this batch.
    Update {
        /// `None` keeps the destination.
        destination_url: Option<&'a str>,
        version: i64,
    },
    Delete,
}

#[derive(Debug)]
struct LinkRow<'a> {
    slug: &'a str,
    destination_url: &'a str,
    version: i64,
    created_at: OffsetDateTime,
}

impl<'a> Change<'a> {
    /// Adds a later update.
    fn then_update(&mut self, later_url: Option<&'a str>, later_version: i64) {
        match self {
            Self::Put(row) => {
                row.destination_url = later_url.unwrap_or(row.destination_url);
                row.version = later_version;
            }
            Self::Update {
                destination_url,
                version,
            } => {
                *destination_url = later_url.or(*destination_url);
                *version = later_version;
            }
            Self::Delete => {}
        }
    }
}

impl<'a> LinkRows<'a> {
    pub(crate) fn project(&mut self, generation: i32, event: &'a DecodedEvent) {
        let recorded = &event.recorded;
        let key = (generation, recorded.account_id.uuid(), recorded.stream_id);
        match &event.event {
            Event::Link(LinkEvent::Created(created)) => {
                let row = LinkRow {
                    slug: &created.slug,
                    destination_url: &created.destination_url,
                    version: recorded.version,
                    created_at: recorded.recorded_at,
                };
                self.0.insert(key, Change::Put(row));
            }
            Event::Link(LinkEvent::DestinationChanged(changed)) => {
                self.update(key, Some(&changed.destination_url), recorded.version);
            }
            Event::Link(LinkEvent::Disabled(_) | LinkEvent::Enabled(_)) => {
                self.update(key, None, recorded.version);
            }
            // Also for a link that was created in the same batch: in a replay its row may exist.
            Event::Link(LinkEvent::Deleted(_)) => {
                self.0.insert(key, Change::Delete);
            }
            // A suspended account keeps its links, and a link has no price.
            Event::Account(AccountEvent::Suspended(_) | AccountEvent::Resumed(_))
            | Event::Credits(
                CreditsEvent::Granted(_) | CreditsEvent::Adjusted(_) | CreditsEvent::Charged(_),
            ) => {}
        }
    }

    fn update(&mut self, key: Key, destination_url: Option<&'a str>, version: i64) {
        self.0
            .entry(key)
            .and_modify(|earlier| earlier.then_update(destination_url, version))
            .or_insert(Change::Update {
                destination_url,
                version,
            });
    }

    pub(crate) async fn write_in_tx(
        &self,
        tx: &mut PgConnection,
        creation: Creation,
    ) -> sqlx::Result<()> {
        let (mut puts, mut updates, mut deletes) = (Vec::new(), Vec::new(), Vec::new());
        for (key, change) in &self.0 {
            match change {
                Change::Put(row) => puts.push((*key, row)),
                Change::Update {
                    destination_url,
                    version,
                } => updates.push((*key, *destination_url, *version)),
                Change::Delete => deletes.push(*key),
            }
        }
        put_in_tx(tx, &puts, creation).await?;
        update_in_tx(tx, &updates).await?;
        delete_in_tx(tx, &deletes).await
    }
}

async fn put_in_tx(
    tx: &mut PgConnection,
    rows: &[(Key, &LinkRow<'_>)],
    creation: Creation,
) -> sqlx::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let generations: Vec<i32> = rows.iter().map(|(key, _)| key.0).collect();
    let account_ids: Vec<Uuid> = rows.iter().map(|(key, _)| key.1).collect();
    let link_ids: Vec<Uuid> = rows.iter().map(|(key, _)| key.2).collect();
    let slugs: Vec<&str> = rows.iter().map(|(_, row)| row.slug).collect();
    let destination_urls: Vec<&str> = rows.iter().map(|(_, row)| row.destination_url).collect();
    let versions: Vec<i64> = rows.iter().map(|(_, row)| row.version).collect();
    let created_at: Vec<OffsetDateTime> = rows.iter().map(|(_, row)| row.created_at).collect();
    macro_rules! put {
        ($on_conflict:literal) => {
            sqlx::query!(
                "
                INSERT INTO read_model.links
                    (generation, account_id, link_id, slug, destination_url, version, created_at)
                SELECT * FROM unnest($1::integer[], $2::uuid[], $3::uuid[], $4::text[],
                                     $5::text[], $6::bigint[], $7::timestamptz[])
                " + $on_conflict,
                &generations,
                &account_ids,
                &link_ids,
                &slugs as &[&str],
                &destination_urls as &[&str],
                &versions,
                &created_at
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
                 version = excluded.version, created_at = excluded.created_at"
        ),
    };
    Ok(())
}

async fn update_in_tx(
    tx: &mut PgConnection,
    rows: &[(Key, Option<&str>, i64)],
) -> sqlx::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let generations: Vec<i32> = rows.iter().map(|(key, ..)| key.0).collect();
    let account_ids: Vec<Uuid> = rows.iter().map(|(key, ..)| key.1).collect();
    let link_ids: Vec<Uuid> = rows.iter().map(|(key, ..)| key.2).collect();
    let destination_urls: Vec<Option<&str>> = rows.iter().map(|(_, url, _)| *url).collect();
    let versions: Vec<i64> = rows.iter().map(|(.., version)| *version).collect();
    sqlx::query!(
        "
        UPDATE read_model.links AS l
        SET destination_url = coalesce(later.destination_url, l.destination_url),
            version = later.version
        FROM unnest($1::integer[], $2::uuid[], $3::uuid[], $4::text[], $5::bigint[])
            AS later (generation, account_id, link_id, destination_url, version)
        WHERE l.generation = later.generation AND l.account_id = later.account_id
          AND l.link_id = later.link_id
        ",
        &generations,
        &account_ids,
        &link_ids,
        &destination_urls as &[Option<&str>],
        &versions
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
