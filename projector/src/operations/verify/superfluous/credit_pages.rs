//! Pages of `read_model.credit_balances` and `read_model.credit_entries`.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::read_models::{
    pages::{Key, PAGE_ROWS, Page, page_rows},
    tables::Target,
};

/// An account that has credits has a first credit event.
pub(super) async fn balances(
    tx: &mut PgConnection,
    target: Target,
    after: Option<&Key>,
) -> sqlx::Result<Page> {
    let from = after.cloned().unwrap_or_default();
    let rows = page_rows!(
        "
        SELECT account_id, account_id AS row_id, 0::bigint AS version, '' AS slug_folded,
               row_number() OVER (ORDER BY account_id) AS place
        FROM (
            SELECT account_id FROM read_model.credit_balances
            WHERE generation = $2 AND account_id >= $3 AND ($4 OR account_id <> $3)
            ORDER BY account_id
            LIMIT $5
        ) AS rows_of_page
        ",
        "
        SELECT p.*, a.shard
        FROM page AS p
        LEFT JOIN event_store.accounts AS a ON a.account_id = p.account_id
        LEFT JOIN read_model.checkpoints AS c
            ON c.projection = $1 AND c.generation = $2 AND c.shard = a.shard
        LEFT JOIN LATERAL (
            SELECT e.position FROM event_store.events AS e
            WHERE e.shard = a.shard AND e.stream_id = p.account_id
              AND e.type IN ('CreditsGranted', 'CreditsAdjusted', 'CreditsCharged')
              AND NOT EXISTS (
                  SELECT FROM read_model.skipped_events AS s
                  WHERE s.projection = $1 AND s.shard = e.shard AND s.position = e.position
                    AND s.event_id = e.event_id
              )
            ORDER BY e.version
            LIMIT 1
        ) AS first ON true
        WHERE first.position IS NULL OR first.position > least(c.position, (
            SELECT position - 1 FROM read_model.parked_events AS w
            WHERE w.account_id = p.account_id AND w.projection = $1 AND w.generation = $2
            ORDER BY position
            LIMIT 1
        ))
        ",
        target.projection.name(),
        target.generation,
        from.account_id,
        after.is_none(),
        PAGE_ROWS
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into())
}

pub(super) async fn entries(
    tx: &mut PgConnection,
    target: Target,
    after: Option<&Key>,
) -> sqlx::Result<Page> {
    let from = after.cloned().unwrap_or_default();
    let rows = page_rows!(
        "
        SELECT account_id, entry_id AS row_id, version, '' AS slug_folded,
               row_number() OVER (ORDER BY account_id, version) AS place
        FROM (
            SELECT account_id, entry_id, version FROM read_model.credit_entries
            WHERE generation = $2 AND (account_id, version) >= ($3, $4)
              AND ($5 OR (account_id, version) <> ($3, $4))
            ORDER BY account_id, version
            LIMIT $6
        ) AS rows_of_page
        ",
        "
        SELECT p.*, a.shard
        FROM page AS p
        LEFT JOIN event_store.accounts AS a ON a.account_id = p.account_id
        LEFT JOIN read_model.checkpoints AS c
            ON c.projection = $1 AND c.generation = $2 AND c.shard = a.shard
        -- By key for each row: without statistics an anti-join would read all events of the account.
        LEFT JOIN LATERAL (
            SELECT e.position FROM event_store.events AS e
            WHERE e.shard = a.shard AND e.stream_id = p.account_id AND e.version = p.version
              AND e.type IN ('CreditsGranted', 'CreditsAdjusted', 'CreditsCharged')
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
        ) AS booked ON true
        WHERE booked.position IS NULL
        ",
        target.projection.name(),
        target.generation,
        from.account_id,
        after.map_or(i64::MIN, |key| key.version),
        after.is_none(),
        PAGE_ROWS
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into())
}

pub(super) async fn remove_balances(
    tx: &mut PgConnection,
    target: Target,
    rows: &[Key],
) -> sqlx::Result<u64> {
    let account_ids: Vec<Uuid> = rows.iter().map(|row| row.account_id).collect();
    let removed = sqlx::query!(
        "
        DELETE FROM read_model.credit_balances AS b
        USING unnest($2::uuid[]) AS gone (account_id)
        WHERE b.generation = $1 AND b.account_id = gone.account_id
        ",
        target.generation,
        &account_ids
    )
    .execute(tx)
    .await?;
    Ok(removed.rows_affected())
}

pub(super) async fn remove_entries(
    tx: &mut PgConnection,
    target: Target,
    rows: &[Key],
) -> sqlx::Result<u64> {
    let account_ids: Vec<Uuid> = rows.iter().map(|row| row.account_id).collect();
    let versions: Vec<i64> = rows.iter().map(|row| row.version).collect();
    let removed = sqlx::query!(
        "
        DELETE FROM read_model.credit_entries AS e
        USING unnest($2::uuid[], $3::bigint[]) AS gone (account_id, version)
        WHERE e.generation = $1 AND e.account_id = gone.account_id AND e.version = gone.version
        ",
        target.generation,
        &account_ids,
        &versions
    )
    .execute(tx)
    .await?;
    Ok(removed.rows_affected())
}
