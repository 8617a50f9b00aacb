//! Links as the log knows them: the first and the last event of a stream are the whole link.

use std::collections::HashMap;

use sqlx::{PgConnection, PgPool, types::Json};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    batch::SettledLink,
    envelope::Metadata,
    id::{AccountId, LinkId},
    link::{ExistingLink, LinkCreated, Slug},
    shard::Shard,
};

/// Those of the links that exist in the account they are asked for with, deleted ones included.
///
/// Must be a statement of its own after the accounts are locked: only a new snapshot sees what
/// was committed while the lock was waited for.
///
/// # Errors
/// When the database does not answer, or holds what can't be read.
pub async fn load_in_tx(
    tx: &mut PgConnection,
    links: &[(AccountId, LinkId)],
) -> sqlx::Result<HashMap<(AccountId, LinkId), SettledLink>> {
    if links.is_empty() {
        return Ok(HashMap::new());
    }
    let shards: Vec<i16> = links
        .iter()
        .map(|(account, _)| Shard::of(*account).number())
        .collect();
    let accounts: Vec<Uuid> = links.iter().map(|(account, _)| account.uuid()).collect();
    let link_ids: Vec<Uuid> = links.iter().map(|(_, link)| link.uuid()).collect();
    let rows = sqlx::query_as!(
        LinkRow,
        r#"
        SELECT first.payload AS "created!: Json<LinkCreated>", first.recorded_at AS "created_at!",
               last.version AS "version!", last.position AS "position!",
               last.metadata AS "metadata!: Json<Metadata>"
        FROM unnest($1::smallint[], $2::uuid[], $3::uuid[])
            AS wanted (shard, account_id, link_id)
        -- Not a plain join: planned while there are no events, it would read all beginnings.
        CROSS JOIN LATERAL (
            SELECT account_id, stream_id, payload, recorded_at FROM event_store.events
            WHERE shard = wanted.shard AND stream_id = wanted.link_id
            ORDER BY version
            LIMIT 1
        ) AS first
        CROSS JOIN LATERAL (
            SELECT version, position, metadata FROM event_store.events
            WHERE shard = wanted.shard AND stream_id = wanted.link_id
            ORDER BY version DESC
            LIMIT 1
        ) AS last
        WHERE first.account_id = wanted.account_id
          -- The account's own stream is not a link.
          AND first.stream_id <> first.account_id
        "#,
        &shards,
        &accounts,
        &link_ids
    )
    .fetch_all(tx)
    .await?;
    rows.into_iter().map(LinkRow::into_entry).collect()
}

/// The account of a link, wherever it is. One look-up for each shard: for operators, not for
/// requests.
///
/// # Errors
/// When the database does not answer.
pub async fn find_owner(pool: &PgPool, link_id: LinkId) -> sqlx::Result<Option<AccountId>> {
    let shards: Vec<i16> = Shard::all().map(Shard::number).collect();
    let owner = sqlx::query_scalar!(
        "
        SELECT account_id FROM event_store.events
        WHERE shard = ANY($1) AND stream_id = $2 AND version = 1 AND type = 'LinkCreated'
        ",
        &shards,
        link_id.uuid()
    )
    .fetch_optional(pool)
    .await?;
    Ok(owner.map(AccountId::from_uuid))
}

/// The link that has a slug, deleted or not.
///
/// # Errors
/// When the database does not answer.
pub async fn find_by_slug(pool: &PgPool, slug: &Slug) -> sqlx::Result<Option<LinkId>> {
    let link_id = sqlx::query_scalar!(
        "SELECT link_id FROM event_store.slugs WHERE slug_folded = $1",
        slug.folded()
    )
    .fetch_optional(pool)
    .await?;
    Ok(link_id.map(LinkId::from_uuid))
}

struct LinkRow {
    created: Json<LinkCreated>,
    created_at: OffsetDateTime,
    version: i64,
    position: i64,
    metadata: Json<Metadata>,
}

impl LinkRow {
    fn into_entry(self) -> sqlx::Result<((AccountId, LinkId), SettledLink)> {
        let Self {
            created: Json(created),
            created_at,
            version,
            position,
            metadata: Json(metadata),
        } = self;
        let key = (created.account_id, created.link_id);
        let mut link = ExistingLink::new(created);
        if version > link.version {
            let missing = || sqlx::Error::Decode("the last event does not keep the link".into());
            link.state = metadata.link.ok_or_else(missing)?;
            link.version = version;
        }
        let settled = SettledLink {
            link,
            created_at,
            position,
        };
        Ok((key, settled))
    }
}
