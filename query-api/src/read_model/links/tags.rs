//! Tags of an account's links.

use linkledger_core::{
    id::AccountId,
    shard::{Position, Shard},
};
use serde::Serialize;
use sqlx::PgPool;
use utoipa::ToSchema;

use crate::read_model::{SnapshotRead, Visibility};

/// Maximum number of links of a tag that are counted.
const LINKS_COUNTED_MAX: i64 = 10_000;

/// Tag as sent to the client.
#[derive(Serialize, ToSchema)]
pub(crate) struct TagCount {
    pub(crate) tag: String,
    /// Number of links that have the tag; 10000 means 10,000 or more.
    #[schema(minimum = 1, maximum = 10000)]
    links: i64,
}

/// Range of an account's tags.
pub(crate) struct TagRange {
    pub(crate) account_id: AccountId,
    /// Tag that all tags of the range come after; empty for the first tags.
    pub(crate) after: String,
    pub(crate) count_max: i64,
}

/// One row: a checkpoint, and a tag, if there is one.
struct TagRow {
    epoch: i32,
    position: Position,
    is_parked: bool,
    tag: Option<String>,
    links: Option<i64>,
}

impl TagRow {
    fn into_tag(self) -> Option<TagCount> {
        Some(TagCount {
            tag: self.tag?,
            links: self.links?,
        })
    }
}

/// Reads tags in the order of their bytes: one look-up of the index for each tag, and up to [`LINKS_COUNTED_MAX`]
/// entries for its links.
pub(crate) async fn list(
    pool: &PgPool,
    range: &TagRange,
) -> sqlx::Result<SnapshotRead<Vec<TagCount>>> {
    // The outer join keeps the checkpoint when there are no tags.
    let rows = sqlx::query_as!(
        TagRow,
        r#"
        WITH RECURSIVE tags (tag, nth) AS (
            (
                SELECT tag, 1::bigint FROM read_model.link_tags
                WHERE generation = (
                          SELECT active_generation FROM read_model.projections
                          WHERE projection = 'links'
                      )
                  AND account_id = $2 AND tag > $3
                ORDER BY tag
                LIMIT 1
            )
            UNION ALL
            SELECT next.tag, tags.nth + 1
            FROM tags
            CROSS JOIN LATERAL (
                SELECT tag FROM read_model.link_tags
                WHERE generation = (
                          SELECT active_generation FROM read_model.projections
                          WHERE projection = 'links'
                      )
                  AND account_id = $2 AND tag > tags.tag
                ORDER BY tag
                LIMIT 1
            ) AS next
            WHERE tags.nth < $4
        )
        SELECT c.epoch, c.position,
               EXISTS (
                   SELECT FROM read_model.parked_accounts AS p
                   WHERE p.account_id = $2 AND p.projection = c.projection
                     AND p.generation = c.generation
               ) AS "is_parked!",
               tags.tag AS "tag?", counted.links AS "links?"
        FROM read_model.checkpoints AS c
        LEFT JOIN tags ON true
        LEFT JOIN LATERAL (
            SELECT count(*) AS links FROM (
                SELECT FROM read_model.link_tags
                WHERE generation = (
                          SELECT active_generation FROM read_model.projections
                          WHERE projection = 'links'
                      )
                  -- The tag `$4` says only that more tags follow.
                  AND account_id = $2 AND tag = tags.tag AND tags.nth < $4
                LIMIT $5
            ) AS links
        ) AS counted ON true
        WHERE c.projection = 'links' AND c.shard = $1
          AND c.generation = (
              SELECT active_generation FROM read_model.projections WHERE projection = 'links'
          )
        ORDER BY tags.nth
        "#,
        Shard::of(range.account_id).number(),
        range.account_id.uuid(),
        range.after,
        range.count_max,
        LINKS_COUNTED_MAX
    )
    .fetch_all(pool)
    .await?;
    let first = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let visibility = Visibility::new(first.epoch, first.position, first.is_parked);
    Ok(visibility.with(rows.into_iter().filter_map(TagRow::into_tag).collect()))
}
