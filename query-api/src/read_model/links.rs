//! Projection `links`: an account's links, newest first, and a link by its id.

use linkledger_core::{
    http::link_body::{LinkBody, LinkParts},
    id::{AccountId, LinkId},
    shard::{Position, Shard},
};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Place, Seen, Visibility};

/// A link as lists and reads show it.
pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) slug: String,
    pub(crate) destination_url: String,
    /// Of the link's stream.
    pub(crate) version: i64,
    pub(crate) created_at: OffsetDateTime,
}

impl Link {
    /// As it is sent.
    pub(crate) fn into_body(self, short_base_url: &str) -> LinkBody {
        let parts = LinkParts {
            id: self.id,
            slug: &self.slug,
            destination_url: self.destination_url,
            created_at: self.created_at,
        };
        LinkBody::new(parts, short_base_url)
    }
}

/// A part of an account's links, newest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkRange {
    pub(crate) account_id: AccountId,
    /// Only links older than this one, which need not exist; `None` from the newest on.
    pub(crate) before: Option<Uuid>,
    pub(crate) count_max: i64,
}

impl LinkRange {
    fn before_or_end(&self) -> Uuid {
        // No UUIDv7 is the highest UUID.
        self.before.unwrap_or(Uuid::max())
    }
}

/// Links of an account.
pub(crate) async fn list(pool: &PgPool, range: LinkRange) -> sqlx::Result<Seen<Vec<Link>>> {
    // The outer join keeps the checkpoint when there are no links.
    let rows = sqlx::query_as!(
        LinkRow,
        r#"
        SELECT c.epoch, c.position,
               EXISTS (
                   SELECT FROM read_model.parked_accounts AS p
                   WHERE p.account_id = $2 AND p.projection = c.projection
                     AND p.generation = c.generation
               ) AS "is_parked!",
               l.link_id AS "link_id?", l.slug AS "slug?", l.destination_url AS "destination_url?",
               l.version AS "version?", l.created_at AS "created_at?"
        FROM read_model.checkpoints AS c
        LEFT JOIN LATERAL (
            SELECT link_id, slug, destination_url, version, created_at
            FROM read_model.links
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'links'
                  )
              AND account_id = $2 AND link_id < $3
            ORDER BY link_id DESC
            LIMIT $4
        ) AS l ON true
        WHERE c.projection = 'links' AND c.shard = $1
          AND c.generation = (
              SELECT active_generation FROM read_model.projections WHERE projection = 'links'
          )
        ORDER BY l.link_id DESC
        "#,
        Shard::of(range.account_id).number(),
        range.account_id.uuid(),
        range.before_or_end(),
        range.count_max
    )
    .fetch_all(pool)
    .await?;
    LinkRow::into_seen(rows)
}

/// Links of an account that lead to that address.
pub(crate) async fn list_by_destination(
    pool: &PgPool,
    range: LinkRange,
    destination_url: &str,
) -> sqlx::Result<Seen<Vec<Link>>> {
    let rows = sqlx::query_as!(
        LinkRow,
        r#"
        SELECT c.epoch, c.position,
               EXISTS (
                   SELECT FROM read_model.parked_accounts AS p
                   WHERE p.account_id = $2 AND p.projection = c.projection
                     AND p.generation = c.generation
               ) AS "is_parked!",
               l.link_id AS "link_id?", l.slug AS "slug?", l.destination_url AS "destination_url?",
               l.version AS "version?", l.created_at AS "created_at?"
        FROM read_model.checkpoints AS c
        LEFT JOIN LATERAL (
            SELECT link_id, slug, destination_url, version, created_at
            FROM read_model.links
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'links'
                  )
              AND hashtextextended(account_id::text || destination_url, 0)
                  = hashtextextended($2::uuid::text || $5, 0)
              AND link_id < $3
              -- Hashes may collide. Not `account_id = $2`: the primary key could serve that, and
              -- would walk all links of the account.
              AND account_id IS NOT DISTINCT FROM $2 AND destination_url = $5
            ORDER BY link_id DESC
            LIMIT $4
        ) AS l ON true
        WHERE c.projection = 'links' AND c.shard = $1
          AND c.generation = (
              SELECT active_generation FROM read_model.projections WHERE projection = 'links'
          )
        ORDER BY l.link_id DESC
        "#,
        Shard::of(range.account_id).number(),
        range.account_id.uuid(),
        range.before_or_end(),
        range.count_max,
        destination_url
    )
    .fetch_all(pool)
    .await?;
    LinkRow::into_seen(rows)
}

/// One link of an account.
pub(crate) async fn find(
    pool: &PgPool,
    account_id: AccountId,
    link_id: LinkId,
) -> sqlx::Result<Seen<Option<Link>>> {
    let row = sqlx::query_as!(
        LinkRow,
        r#"
        SELECT c.epoch, c.position,
               EXISTS (
                   SELECT FROM read_model.parked_accounts AS p
                   WHERE p.account_id = $2 AND p.projection = c.projection
                     AND p.generation = c.generation
               ) AS "is_parked!",
               l.link_id AS "link_id?", l.slug AS "slug?", l.destination_url AS "destination_url?",
               l.version AS "version?", l.created_at AS "created_at?"
        FROM read_model.checkpoints AS c
        LEFT JOIN read_model.links AS l
               ON l.generation = c.generation AND l.account_id = $2 AND l.link_id = $3
        WHERE c.projection = 'links' AND c.shard = $1
          AND c.generation = (
              SELECT active_generation FROM read_model.projections WHERE projection = 'links'
          )
        "#,
        Shard::of(account_id).number(),
        account_id.uuid(),
        link_id.uuid()
    )
    .fetch_one(pool)
    .await?;
    Ok(row.visibility().of(row.into_link()))
}

/// A checkpoint, and a link if there is one.
struct LinkRow {
    epoch: i32,
    position: Position,
    is_parked: bool,
    link_id: Option<Uuid>,
    slug: Option<String>,
    destination_url: Option<String>,
    version: Option<i64>,
    created_at: Option<OffsetDateTime>,
}

impl LinkRow {
    fn into_seen(rows: Vec<Self>) -> sqlx::Result<Seen<Vec<Link>>> {
        let visibility = rows.first().ok_or(sqlx::Error::RowNotFound)?.visibility();
        Ok(visibility.of(rows.into_iter().filter_map(Self::into_link).collect()))
    }

    fn visibility(&self) -> Visibility {
        Visibility {
            checkpoint: Place {
                epoch: self.epoch,
                position: self.position,
            },
            is_parked: self.is_parked,
        }
    }

    fn into_link(self) -> Option<Link> {
        Some(Link {
            id: LinkId::from_uuid(self.link_id?),
            slug: self.slug?,
            destination_url: self.destination_url?,
            version: self.version?,
            created_at: self.created_at?,
        })
    }
}
