//! Projection `links`: tables `read_model.links` and `read_model.link_tags`.
//!
//! The owner can list and read a disabled link; a deleted link has no row.

use std::collections::BTreeMap;

use linkledger_core::link::{DisabledBy, Expiry, LinkDetails, LinkState};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use super::tags;
use crate::read_models::{Creation, DecodedEvent, EventContent};

/// Key of the table: generation, account, link.
pub(super) type Key = (i32, Uuid, Uuid);

/// Links after their last events in the batch.
#[derive(Debug, Default)]
pub struct LinkRows<'a>(BTreeMap<Key, Row<'a>>);

#[derive(Debug)]
struct Row<'a> {
    state: &'a LinkState,
    version: i64,
    /// True if the batch has the creation of the link.
    is_new: bool,
}

impl<'a> LinkRows<'a> {
    pub(crate) fn project(&mut self, generation: i32, event: &'a DecodedEvent) {
        let state = match &event.content {
            EventContent::Link(state) => state,
            // A suspended account keeps its links, and a link has no price. Readers compare the expiry themselves.
            EventContent::Account(_)
            | EventContent::ApiKey(_)
            | EventContent::Webhook(_)
            | EventContent::Observation(_)
            | EventContent::Credits(_) => return,
        };
        let recorded = &event.recorded;
        let version = recorded.version;
        let key = (generation, recorded.account_id.uuid(), recorded.stream_id);
        let row = self.0.entry(key).or_insert(Row {
            state,
            version,
            is_new: version == 1,
        });
        (row.state, row.version) = (state, version);
    }

    pub(crate) async fn write_in_tx(
        &self,
        tx: &mut PgConnection,
        creation: Creation,
    ) -> sqlx::Result<()> {
        let (mut inserts, mut puts) = (Columns::default(), Columns::default());
        let (mut deletes, mut links, mut may_have_tags) = (Vec::new(), Vec::new(), Vec::new());
        for (key, row) in &self.0 {
            let is_insert = row.is_new && creation == Creation::Insert && !row.state.deleted;
            links.push((*key, row.state));
            if !is_insert {
                may_have_tags.push((*key, row.state));
            }
            if row.state.deleted {
                deletes.push(*key);
            } else if is_insert {
                inserts.push(*key, row);
            } else {
                puts.push(*key, row);
            }
        }
        tags::delete_in_tx(tx, &may_have_tags).await?;
        inserts.write_in_tx(tx, Creation::Insert).await?;
        puts.write_in_tx(tx, Creation::Put).await?;
        delete_in_tx(tx, &deletes).await?;
        tags::insert_in_tx(tx, &links).await
    }
}

/// Rows as columns, for `unnest`.
#[derive(Debug, Default)]
struct Columns<'a> {
    generations: Vec<i32>,
    account_ids: Vec<Uuid>,
    link_ids: Vec<Uuid>,
    slugs: Vec<&'a str>,
    destination_urls: Vec<&'a str>,
    versions: Vec<i64>,
    created_at: Vec<OffsetDateTime>,
    titles: Vec<Option<&'a str>>,
    external_ids: Vec<Option<&'a str>>,
    /// Tags separated by commas, which no tag contains.
    tags: Vec<Option<String>>,
    expires_at: Vec<Option<OffsetDateTime>>,
    expired_urls: Vec<Option<&'a str>>,
    disabled_by: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, (generation, account_id, link_id): Key, row: &Row<'a>) {
        let disabled_by = row.state.disabled_by();
        // Without `..`: the compiler names a member that the rows lack.
        let LinkState {
            slug,
            created_at,
            destination_url,
            disabled_by_operator: _,
            disabled_by_owner: _,
            deleted: _,
            details,
        } = row.state;
        let LinkDetails {
            title,
            external_id,
            tags,
            expires_at,
            expired_url,
        } = details;
        let tags = tags.as_ref().map(|tags| tags.as_slice().join(","));
        self.generations.push(generation);
        self.account_ids.push(account_id);
        self.link_ids.push(link_id);
        self.slugs.push(slug);
        self.destination_urls.push(destination_url);
        self.versions.push(row.version);
        self.created_at.push(*created_at);
        self.titles.push(title.as_deref());
        self.external_ids.push(external_id.as_deref());
        self.tags.push(tags);
        self.expires_at.push(expires_at.map(Expiry::instant));
        self.expired_urls.push(expired_url.as_deref());
        self.disabled_by.push(disabled_by.map(DisabledBy::name));
    }

    async fn write_in_tx(&self, tx: &mut PgConnection, creation: Creation) -> sqlx::Result<()> {
        if self.link_ids.is_empty() {
            return Ok(());
        }
        macro_rules! put {
            ($on_conflict:literal) => {
                sqlx::query!(
                    "
                    INSERT INTO read_model.links
                        (generation, account_id, link_id, slug, destination_url, version,
                         created_at, title, external_id, tags, expires_at, expired_url, disabled_by)
                    SELECT generation, account_id, link_id, slug, destination_url, version,
                           created_at, title, external_id, string_to_array(tags, ','), expires_at,
                           expired_url, disabled_by
                    FROM unnest($1::integer[], $2::uuid[], $3::uuid[], $4::text[], $5::text[],
                                $6::bigint[], $7::timestamptz[], $8::text[], $9::text[],
                                $10::text[], $11::timestamptz[], $12::text[], $13::text[])
                        AS new (generation, account_id, link_id, slug, destination_url, version,
                                created_at, title, external_id, tags, expires_at, expired_url,
                                disabled_by)
                    " + $on_conflict,
                    &self.generations,
                    &self.account_ids,
                    &self.link_ids,
                    &self.slugs as &[&str],
                    &self.destination_urls as &[&str],
                    &self.versions,
                    &self.created_at,
                    &self.titles as &[Option<&str>],
                    &self.external_ids as &[Option<&str>],
                    &self.tags as &[Option<String>],
                    &self.expires_at as &[Option<OffsetDateTime>],
                    &self.expired_urls as &[Option<&str>],
                    &self.disabled_by as &[Option<&str>]
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
                     title = excluded.title, external_id = excluded.external_id,
                     tags = excluded.tags, expires_at = excluded.expires_at,
                     expired_url = excluded.expired_url, disabled_by = excluded.disabled_by"
            ),
        };
        Ok(())
    }
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
