//! Projection `links`: an account's links, newest first, and a link by its id.

mod link_columns;
pub(crate) mod search;
pub(crate) mod tags;

use linkledger_core::{
    id::{AccountId, LinkId},
    shard::Shard,
};
use linkledger_http::{
    dataloader::BatchedRead,
    link_body::{LinkBody, LinkParts},
};
use sqlx::PgPool;
use uuid::Uuid;

use self::link_columns::{LinkRow, link_arrays, query_link_arrays};
use super::{SnapshotRead, Visibility};

/// Link as lists and single reads show it.
pub(crate) struct LinkView {
    pub(crate) parts: LinkParts,
    /// Version of the link's stream, which the `ETag` carries.
    pub(crate) version: i64,
}

impl LinkView {
    /// Converts the link to the body of an answer.
    pub(crate) fn into_body(self, short_base_url: &str) -> LinkBody {
        LinkBody::new(self.parts, short_base_url)
    }
}

/// Range of an account's links, newest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkRange {
    pub(crate) account_id: AccountId,
    /// Link id that all links are older than; such a link need not exist. `None` for the newest links.
    pub(crate) before: Option<Uuid>,
    pub(crate) count_max: i64,
}

impl LinkRange {
    fn before_or_end(&self) -> Uuid {
        // The highest UUID is no UUIDv7, so every link is older.
        self.before.unwrap_or(Uuid::max())
    }

    fn shard_number(&self) -> i16 {
        Shard::of(self.account_id).number()
    }
}

// A statement costs as much as ten links by id within one statement, or as one page of links.
impl BatchedRead for LinkRange {
    type Value = SnapshotRead<Vec<LinkView>>;
    const TASK: &'static str = "list reader";
    /// Maximum number of pages of one statement: a page usually has 10 KB, and at most 220 KB.
    const REQUESTS_MAX: usize = 16;

    async fn read_each(pool: &PgPool, keys: &[Self]) -> sqlx::Result<Vec<Self::Value>> {
        list_each(pool, keys).await
    }
}

/// Reads the links of each range, all from one snapshot.
async fn list_each(
    pool: &PgPool,
    ranges: &[LinkRange],
) -> sqlx::Result<Vec<SnapshotRead<Vec<LinkView>>>> {
    let shards: Vec<i16> = ranges.iter().map(LinkRange::shard_number).collect();
    let account_ids: Vec<Uuid> = ranges.iter().map(|range| range.account_id.uuid()).collect();
    let befores: Vec<Uuid> = ranges.iter().map(LinkRange::before_or_end).collect();
    let counts_max: Vec<i64> = ranges.iter().map(|range| range.count_max).collect();
    let pages = query_link_arrays!(
        [r#"
        SELECT c.epoch, c.position, p.account_id IS NOT NULL AS "is_parked!",
        "#],
        [r#"
        FROM unnest($1::smallint[], $2::uuid[], $3::uuid[], $4::bigint[]) WITH ORDINALITY
            AS wanted (shard, account_id, before, count_max, nth)
        JOIN read_model.checkpoints AS c
          ON c.projection = 'links' AND c.shard = wanted.shard
         AND c.generation = (
             SELECT active_generation FROM read_model.projections WHERE projection = 'links'
         )
        CROSS JOIN LATERAL (
            SELECT
        "#],
        [r#"
            FROM (
                SELECT * FROM read_model.links
                WHERE generation = (
                          SELECT active_generation FROM read_model.projections
                          WHERE projection = 'links'
                      )
                  AND account_id = wanted.account_id AND link_id < wanted.before
                ORDER BY link_id DESC
                LIMIT wanted.count_max
            ) AS page
        ) AS l
        -- Not `EXISTS`: a plan made while few accounts are parked would read all of them.
        LEFT JOIN LATERAL (
            SELECT account_id FROM read_model.parked_accounts
            WHERE account_id = wanted.account_id AND projection = c.projection
              AND generation = c.generation
            LIMIT 1
        ) AS p ON true
        ORDER BY wanted.nth
        "#],
        &shards,
        &account_ids,
        &befores,
        &counts_max
    )
    .fetch_all(pool)
    .await?;
    let snapshots = one_each(pages, ranges.len())?.map(|page| {
        let visibility = Visibility::new(page.epoch, page.position, page.is_parked);
        visibility.with(link_arrays!(page).into_links().collect())
    });
    Ok(snapshots.collect())
}

/// Key of a link: only the owner may read a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkKey {
    pub(crate) account_id: AccountId,
    pub(crate) link_id: LinkId,
}

/// Read of a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkRead {
    pub(crate) key: LinkKey,
    /// False if the link is wanted from a snapshot of any age: the result then has [`Visibility::NOT_READ`].
    pub(crate) with_visibility: bool,
}

impl BatchedRead for LinkRead {
    type Value = SnapshotRead<Option<LinkView>>;
    const TASK: &'static str = "link reader";
    const REQUESTS_MAX: usize = 64;

    async fn read_each(pool: &PgPool, keys: &[Self]) -> sqlx::Result<Vec<Self::Value>> {
        find_each(pool, keys).await
    }
}

/// Reads links, all from one snapshot.
async fn find_each(
    pool: &PgPool,
    reads: &[LinkRead],
) -> sqlx::Result<Vec<SnapshotRead<Option<LinkView>>>> {
    let account_id = |read: &LinkRead| read.key.account_id;
    let shards = reads
        .iter()
        .map(|read| Shard::of(account_id(read)).number());
    let shards: Vec<i16> = shards.collect();
    let account_ids: Vec<Uuid> = reads.iter().map(|read| account_id(read).uuid()).collect();
    let link_ids: Vec<Uuid> = reads.iter().map(|read| read.key.link_id.uuid()).collect();
    let with_visibility: Vec<bool> = reads.iter().map(|read| read.with_visibility).collect();
    let rows = sqlx::query_as!(
        LinkRow,
        r#"
        SELECT c.epoch AS "epoch?", c.position AS "position?", c.is_parked AS "is_parked?",
               l.link_id AS "link_id?", l.slug AS "slug?", l.destination_url AS "destination_url?",
               l.version AS "version?", l.created_at AS "created_at?", l.title AS "title?",
               l.external_id AS "external_id?", l.tags AS "tags?", l.expires_at AS "expires_at?",
               l.expired_url AS "expired_url?", l.disabled_by AS "disabled_by?"
        FROM unnest($1::smallint[], $2::uuid[], $3::uuid[], $4::boolean[]) WITH ORDINALITY
            AS wanted (shard, account_id, link_id, with_visibility, nth)
        -- Not a plain join: planned on empty tables, it would read all links.
        LEFT JOIN LATERAL (
            SELECT * FROM read_model.links
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'links'
                  )
              AND account_id = wanted.account_id AND link_id = wanted.link_id
            LIMIT 1
        ) AS l ON true
        LEFT JOIN LATERAL (
            SELECT epoch, position, p.account_id IS NOT NULL AS is_parked
            FROM read_model.checkpoints
            -- Not `EXISTS`: a plan made while few accounts are parked would read all of them.
            LEFT JOIN LATERAL (
                SELECT account_id FROM read_model.parked_accounts
                WHERE account_id = wanted.account_id AND projection = checkpoints.projection
                  AND generation = checkpoints.generation
                LIMIT 1
            ) AS p ON true
            WHERE wanted.with_visibility AND projection = 'links' AND shard = wanted.shard
              AND generation = (
                  SELECT active_generation FROM read_model.projections
                  WHERE projection = 'links'
              )
            -- Keeps the subquery separate: nothing of it is read for a row that does not want it.
            LIMIT 1
        ) AS c ON true
        ORDER BY wanted.nth
        "#,
        &shards,
        &account_ids,
        &link_ids,
        &with_visibility
    )
    .fetch_all(pool)
    .await?;
    let snapshots = one_each(rows, reads.len())?.zip(reads);
    snapshots
        .map(|(row, read)| snapshot_of_row(row, read.with_visibility))
        .collect()
}

/// Returns the rows if each key has one. A range whose shard has no checkpoint has no row.
fn one_each<R>(rows: Vec<R>, keys: usize) -> sqlx::Result<impl Iterator<Item = R>> {
    let is_complete = rows.len() == keys;
    let rows = is_complete.then_some(rows);
    rows.map(Vec::into_iter).ok_or(sqlx::Error::RowNotFound)
}

/// Reads links of one account from one snapshot, in the order of the keys.
pub(crate) async fn find_together(
    pool: &PgPool,
    keys: &[LinkKey],
) -> sqlx::Result<SnapshotRead<Vec<Option<LinkView>>>> {
    let reads = keys.iter().map(|key| LinkRead {
        key: *key,
        with_visibility: true,
    });
    let found = find_each(pool, &reads.collect::<Vec<_>>()).await?;
    let visibility = found.first().ok_or(sqlx::Error::RowNotFound)?.visibility;
    let links = found.into_iter().map(|link| link.value).collect();
    Ok(visibility.with(links))
}

/// Converts the row of a link to the result of its read.
fn snapshot_of_row(
    row: LinkRow,
    with_visibility: bool,
) -> sqlx::Result<SnapshotRead<Option<LinkView>>> {
    let visibility = match (row.epoch, row.position, row.is_parked) {
        (Some(epoch), Some(position), Some(is_parked)) => {
            Visibility::new(epoch, position, is_parked)
        }
        // A shard has no checkpoint.
        _ if with_visibility => return Err(sqlx::Error::RowNotFound),
        _ => Visibility::NOT_READ,
    };
    Ok(visibility.with(row.into_link()))
}
