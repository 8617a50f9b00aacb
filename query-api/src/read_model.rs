//! The read tables: every SQL statement of query-api on them.
//!
//! Each statement takes the active generation by a sub-select of its own, so that a swap between
//! two statements can't mix generations. A checkpoint comes out of the same snapshot as the rows
//! that are judged by it.

use linkledger_core::{
    event_store::log::PerShard,
    id::{AccountId, LinkId},
    link::Slug,
    problem::Problem,
    shard::{Position, Shard},
};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

/// A place in the log of one shard. Of two, the later epoch is later, whatever the positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Place {
    pub(crate) epoch: i32,
    pub(crate) position: Position,
}

impl Place {
    /// Before every event: whoever asks for it asks for nothing.
    pub(crate) const BEGINNING: Self = Self {
        epoch: 0,
        position: 0,
    };
}

/// What one snapshot of the read tables shows.
pub(crate) struct Seen<T> {
    pub(crate) value: T,
    /// Everything of the shard up to here is in the snapshot.
    pub(crate) checkpoint: Place,
}

/// A link as lists and reads show it.
pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) slug: String,
    pub(crate) destination_url: String,
    /// Of the link's stream.
    pub(crate) version: i64,
    pub(crate) created_at: OffsetDateTime,
}

/// A part of an account's links, newest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkRange {
    pub(crate) account_id: AccountId,
    /// Only links older than this one, which need not exist; `None` from the newest on.
    pub(crate) before: Option<Uuid>,
    pub(crate) count_max: i64,
}

/// Checkpoints of the active generations.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Checkpoints {
    pub(crate) links: PerShard<Place>,
    pub(crate) redirects: PerShard<Place>,
}

/// Links of an account.
pub(crate) async fn links(pool: &PgPool, range: LinkRange) -> sqlx::Result<Seen<Vec<Link>>> {
    // The outer join keeps the checkpoint when there are no links.
    let rows = sqlx::query_as!(
        LinkRow,
        r#"
        SELECT c.epoch, c.position,
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
        // No UUIDv7 is the highest UUID.
        range.before.unwrap_or(Uuid::max()),
        range.count_max
    )
    .fetch_all(pool)
    .await?;
    let checkpoint = rows.first().ok_or(sqlx::Error::RowNotFound)?.checkpoint();
    Ok(Seen {
        value: rows.into_iter().filter_map(LinkRow::into_link).collect(),
        checkpoint,
    })
}

/// One link of an account.
pub(crate) async fn link(
    pool: &PgPool,
    account_id: AccountId,
    link_id: LinkId,
) -> sqlx::Result<Seen<Option<Link>>> {
    let row = sqlx::query_as!(
        LinkRow,
        r#"
        SELECT c.epoch, c.position,
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
    Ok(Seen {
        checkpoint: row.checkpoint(),
        value: row.into_link(),
    })
}

/// Where a slug leads to.
pub(crate) async fn redirect(pool: &PgPool, slug: &Slug) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "
        SELECT destination_url FROM read_model.redirects
        WHERE generation = (
                  SELECT active_generation FROM read_model.projections
                  WHERE projection = 'redirects'
              )
          AND slug_folded = $1
        ",
        slug.folded()
    )
    .fetch_optional(pool)
    .await
}

/// Where a slug leads to, and how far the shard of its link is.
pub(crate) async fn redirect_of_shard(
    pool: &PgPool,
    slug: &Slug,
    shard: Shard,
) -> sqlx::Result<Seen<Option<String>>> {
    let row = sqlx::query!(
        r#"
        SELECT c.epoch, c.position, r.destination_url AS "destination_url?"
        FROM read_model.checkpoints AS c
        LEFT JOIN read_model.redirects AS r
               ON r.generation = c.generation AND r.slug_folded = $2
        WHERE c.projection = 'redirects' AND c.shard = $1
          AND c.generation = (
              SELECT active_generation FROM read_model.projections WHERE projection = 'redirects'
          )
        "#,
        shard.number(),
        slug.folded()
    )
    .fetch_one(pool)
    .await?;
    Ok(Seen {
        value: row.destination_url,
        checkpoint: Place {
            epoch: row.epoch,
            position: row.position,
        },
    })
}

/// How far the projections are that somebody may wait for.
pub(crate) async fn checkpoints(pool: &PgPool) -> sqlx::Result<Checkpoints> {
    let rows = sqlx::query!(
        "
        SELECT c.projection, c.shard, c.epoch, c.position
        FROM read_model.projections AS p
        JOIN read_model.checkpoints AS c
          ON c.projection = p.projection AND c.generation = p.active_generation
        WHERE p.projection IN ('links', 'redirects')
        "
    )
    .fetch_all(pool)
    .await?;
    let mut checkpoints = Checkpoints::default();
    for row in rows {
        let per_shard = match row.projection.as_str() {
            "links" => &mut checkpoints.links,
            "redirects" => &mut checkpoints.redirects,
            _ => continue,
        };
        if let Some(shard) = Shard::new(row.shard.into()) {
            per_shard[shard.index()] = Place {
                epoch: row.epoch,
                position: row.position,
            };
        }
    }
    Ok(checkpoints)
}

/// The problem of a statement that failed; logs it, because the caller learns no more than that.
pub(crate) fn unavailable(error: &sqlx::Error) -> Problem {
    tracing::error!(
        error = error as &dyn std::error::Error,
        "can't read the database"
    );
    Problem::storage_unavailable()
}

/// A checkpoint, and a link if there is one.
struct LinkRow {
    epoch: i32,
    position: Position,
    link_id: Option<Uuid>,
    slug: Option<String>,
    destination_url: Option<String>,
    version: Option<i64>,
    created_at: Option<OffsetDateTime>,
}

impl LinkRow {
    fn checkpoint(&self) -> Place {
        Place {
            epoch: self.epoch,
            position: self.position,
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
