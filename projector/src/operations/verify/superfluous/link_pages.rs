//! Pages of `read_model.links` and `read_model.redirects`.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::read_models::{
    pages::{Key, PAGE_ROWS, Page, page_rows},
    tables::Target,
};

pub(super) async fn links(
    tx: &mut PgConnection,
    target: Target,
    after: Option<&Key>,
) -> sqlx::Result<Page> {
    let from = after.cloned().unwrap_or_default();
    let rows = page_rows!(
        "
        SELECT account_id, link_id AS row_id, 0::bigint AS version, '' AS slug_folded,
               row_number() OVER (ORDER BY account_id, link_id) AS place
        FROM (
            SELECT account_id, link_id FROM read_model.links
            WHERE generation = $2 AND (account_id, link_id) >= ($3, $4)
              AND ($5 OR (account_id, link_id) <> ($3, $4))
            ORDER BY account_id, link_id
            LIMIT $6
        ) AS rows_of_page
        ",
        "
        SELECT p.*, a.shard
        FROM page AS p
        LEFT JOIN event_store.accounts AS a ON a.account_id = p.account_id
        LEFT JOIN read_model.checkpoints AS c
            ON c.projection = $1 AND c.generation = $2 AND c.shard = a.shard
        -- By key for each row: without statistics an anti-join would read all links of the shard.
        LEFT JOIN LATERAL (
            SELECT e.position FROM event_store.events AS e
            WHERE e.shard = a.shard AND e.stream_id = p.row_id AND e.version = 1
              AND e.account_id = p.account_id AND e.type = 'LinkCreated'
              AND e.position <= least(c.position, (
                  SELECT position - 1 FROM read_model.parked_events AS w
                  WHERE w.account_id = p.account_id AND w.projection = $1 AND w.generation = $2
                  ORDER BY position
                  LIMIT 1
              )) AND NOT EXISTS (
                  SELECT FROM read_model.skipped_events AS s
                  WHERE s.projection = $1 AND s.shard = e.shard AND s.position = e.position
                    AND s.event_id = e.event_id
              )
            LIMIT 1
        ) AS created ON true
        WHERE created.position IS NULL
        ",
        target.projection.name(),
        target.generation,
        from.account_id,
        from.row_id,
        after.is_none(),
        PAGE_ROWS
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into())
}

pub(super) async fn redirects(
    tx: &mut PgConnection,
    target: Target,
    after: Option<&Key>,
) -> sqlx::Result<Page> {
    let from = after.cloned().unwrap_or_default();
    let rows = page_rows!(
        "
        SELECT account_id, link_id AS row_id, 0::bigint AS version, slug_folded,
               row_number() OVER (ORDER BY slug_folded) AS place
        FROM (
            SELECT account_id, link_id, slug_folded FROM read_model.redirects
            WHERE generation = $2 AND slug_folded >= $3 AND ($4 OR slug_folded <> $3)
            ORDER BY slug_folded
            LIMIT $5
        ) AS rows_of_page
        ",
        "
        SELECT p.*, sl.shard
        FROM page AS p
        LEFT JOIN event_store.slugs AS sl ON sl.slug_folded = p.slug_folded
        LEFT JOIN read_model.checkpoints AS c
            ON c.projection = $1 AND c.generation = $2 AND c.shard = sl.shard
        LEFT JOIN LATERAL (
            SELECT e.position FROM event_store.events AS e
            WHERE e.shard = sl.shard AND e.stream_id = sl.link_id AND e.version = 1
              AND e.type = 'LinkCreated'
              AND e.position <= least(c.position, (
                  SELECT position - 1 FROM read_model.parked_events AS w
                  WHERE w.account_id = e.account_id AND w.projection = $1 AND w.generation = $2
                  ORDER BY position
                  LIMIT 1
              )) AND NOT EXISTS (
                  SELECT FROM read_model.skipped_events AS s
                  WHERE s.projection = $1 AND s.shard = e.shard AND s.position = e.position
                    AND s.event_id = e.event_id
              )
            LIMIT 1
        ) AS created ON true
        WHERE created.position IS NULL
        ",
        target.projection.name(),
        target.generation,
        from.slug_folded,
        after.is_none(),
        PAGE_ROWS
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into())
}

pub(super) async fn remove_links(
    tx: &mut PgConnection,
    target: Target,
    rows: &[Key],
) -> sqlx::Result<u64> {
    let account_ids: Vec<Uuid> = rows.iter().map(|row| row.account_id).collect();
    let link_ids: Vec<Uuid> = rows.iter().map(|row| row.row_id).collect();
    let removed = sqlx::query!(
        "
        DELETE FROM read_model.links AS l
        USING unnest($2::uuid[], $3::uuid[]) AS gone (account_id, link_id)
        WHERE l.generation = $1 AND l.account_id = gone.account_id AND l.link_id = gone.link_id
        ",
        target.generation,
        &account_ids,
        &link_ids
    )
    .execute(tx)
    .await?;
    Ok(removed.rows_affected())
}

pub(super) async fn remove_redirects(
    tx: &mut PgConnection,
    target: Target,
    rows: &[Key],
) -> sqlx::Result<u64> {
    let slugs_folded: Vec<&str> = rows.iter().map(|row| row.slug_folded.as_str()).collect();
    let removed = sqlx::query!(
        "
        DELETE FROM read_model.redirects AS r
        USING unnest($2::text[]) AS gone (slug_folded)
        WHERE r.generation = $1 AND r.slug_folded = gone.slug_folded
        ",
        target.generation,
        &slugs_folded as &[&str]
    )
    .execute(tx)
    .await?;
    Ok(removed.rows_affected())
}
