//! Pages of an account's links that meet filters, in the order of creation.
//!
//! A page walks one index, that of the filter that usually leaves the fewest links, and tests the other filters on the rows.
//! A request looks at [`ROWS_MAX`] rows at most: a page that is short for this reason says where it stopped.

use std::iter::zip;

use linkledger_core::{
    id::{AccountId, LinkId},
    link::SlugPrefix,
    shard::Shard,
};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    LinkView,
    link_columns::{LinkArrays, link_arrays, query_link_arrays},
};
use crate::read_model::{SnapshotRead, Visibility};

/// Maximum number of rows that a request looks at.
pub(crate) const ROWS_MAX: i64 = 10_000;
/// Maximum number of rows of a walk with a slug prefix. Before, as many entries of the index of slugs are read; only if
/// there are as many, the list itself is walked.
const ROWS_MAX_BESIDE_COUNT: i64 = ROWS_MAX / 2;

/// Order of a list of links, by the time of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum LinkOrder {
    #[default]
    NewestFirst,
    OldestFirst,
}

/// Filters and range of a page. A filter that is `None` lets all links pass.
#[derive(Debug, Clone)]
pub(crate) struct LinkSearch {
    pub(crate) account_id: AccountId,
    /// Lowest id of the range, inclusive.
    pub(crate) start: Uuid,
    /// Highest id of the range, exclusive.
    pub(crate) end: Uuid,
    pub(crate) order: LinkOrder,
    pub(crate) slug_prefix: Option<SlugPrefix>,
    pub(crate) destination_url: Option<String>,
    pub(crate) destination_host: Option<String>,
    pub(crate) external_id: Option<String>,
    /// Tags that a link has all.
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) state: Option<StateFilter>,
    /// Time at which links have expired or not.
    pub(crate) now: OffsetDateTime,
    pub(crate) count_max: i64,
}

linkledger_core::named_enum! {
    /// State of a link, as a filter. An expired link that is disabled counts as disabled.
    pub(crate) enum StateFilter {
        Active = "active",
        Disabled = "disabled",
        Expired = "expired",
    }
}

/// Links that a request has found.
pub(crate) struct FoundLinks {
    pub(crate) links: Vec<LinkView>,
    /// Last link that was looked at, if the request stopped because it had looked at [`ROWS_MAX`] rows.
    pub(crate) stopped_at: Option<LinkId>,
}

impl FoundLinks {
    /// Returns all links of a range.
    pub(crate) fn all(links: Vec<LinkView>) -> Self {
        Self {
            links,
            stopped_at: None,
        }
    }

    /// Returns the links among the rows of a page. The last row may be none of them, and says that more rows may follow.
    fn among(rows: LinkArrays, are_found: Vec<bool>, has_stopped: bool) -> Self {
        let last = rows.link_ids.last().copied().filter(|_| has_stopped);
        let rows = zip(rows.into_links(), are_found);
        let links = rows.filter_map(|(link, is_found)| is_found.then_some(link));
        Self {
            links: links.collect(),
            stopped_at: last.map(LinkId::from_uuid),
        }
    }
}

/// Reads a page of the rows of a walk: links in the order of the list, which are only read until the page is full. Each part of
/// the walk but the last one ends with `ORDER BY link_id`. The rows have all columns of `read_model.links`, and no slug if that
/// table lacks the link.
///
/// Parameters: `$1` shard, `$2` account, `$3` and `$4` range of ids, `$5` most rows, `$6` most links of the page, `$7`
/// and `$8` range of lower-cased slugs, `$9` destination, `$10` host, `$11` state, `$12` current time, `$13` tags,
/// `$14` external id.
macro_rules! page_of_rows {
    ($pool:expr, $search:expr, $rows_max:expr, [$($first:tt)+], $([$($rest:tt)+]),+) => {
        match $search.order {
            LinkOrder::NewestFirst => {
                page_of_rows!(@ordered $pool, $search, $rows_max, $($first)+ $(+ " DESC " + $($rest)+)+)
            }
            LinkOrder::OldestFirst => {
                page_of_rows!(@ordered $pool, $search, $rows_max, $($first)+ $(+ $($rest)+)+)
            }
        }
    };
    (@ordered $pool:expr, $search:expr, $rows_max:expr, $($rows:tt)+) => {{
        let search: &LinkSearch = $search;
        let slug_end = search.slug_prefix.as_ref().map(SlugPrefix::end);
        let page = query_link_arrays!(
            [r#"
            SELECT c.epoch, c.position,
                   EXISTS (
                       SELECT FROM read_model.parked_accounts AS p
                       WHERE p.account_id = $2
                         AND p.projection = c.projection AND p.generation = c.generation
                   ) AS "is_parked!",
                   l.last_row AS "last_row!", l.are_found AS "are_found!",
            "#],
        [r#"
            FROM read_model.checkpoints AS c
            CROSS JOIN LATERAL (
                SELECT coalesce(max(nth), 0) AS last_row,
                       coalesce(array_agg(is_found), '{}') AS are_found,
            "#],
        [r#"
                FROM (
                    SELECT numbered.*, is_found
                    FROM (SELECT rows.*, row_number() OVER () AS nth FROM (
                        "#
                + $($rows)+
                + r#"
                    ) AS rows) AS numbered
                    CROSS JOIN LATERAL (
                        SELECT slug IS NOT NULL
                               AND ($7::text IS NULL
                                    OR lower(slug COLLATE "C") >= $7
                                       AND lower(slug COLLATE "C") < $8::text)
                               AND ($9::text IS NULL OR destination_url = $9)
                               AND ($10::text IS NULL
                                    OR split_part(split_part(destination_url, '/', 3), ':', 1) = $10
                                    -- An IPv6 address has colons of its own.
                                    OR $10 LIKE '[%' AND starts_with(split_part(destination_url, '/', 3), $10))
                               AND ($11::text IS NULL
                                    OR $11 = CASE WHEN disabled_by IS NOT NULL THEN 'disabled'
                                                  WHEN expires_at <= $12 THEN 'expired'
                                                  ELSE 'active' END)
                               AND ($13::text[] IS NULL OR coalesce(tags @> $13, false))
                               AND ($14::text IS NULL OR external_id IS NOT DISTINCT FROM $14)
                               AS is_found
                    ) AS filtered
                    -- The last row says that more rows may follow, also if it is not found.
                    WHERE is_found OR nth = $5
                    LIMIT $6
                ) AS page
            ) AS l
            WHERE c.projection = 'links' AND c.shard = $1
              AND c.generation = (
                  SELECT active_generation FROM read_model.projections WHERE projection = 'links'
              )
            "#],
            Shard::of(search.account_id).number(),
            search.account_id.uuid(),
            search.start,
            search.end,
            $rows_max,
            search.count_max,
            search.slug_prefix.as_ref().map(SlugPrefix::as_str),
            slug_end.as_deref(),
            search.destination_url.as_deref(),
            search.destination_host.as_deref(),
            search.state.map(StateFilter::name),
            search.now,
            search.tags.as_deref(),
            search.external_id.as_deref()
        )
        .fetch_one($pool)
        .await?;
        let has_stopped = page.last_row == $rows_max;
        Visibility::new(page.epoch, page.position, page.is_parked)
            .with(FoundLinks::among(link_arrays!(page), page.are_found, has_stopped))
    }};
}

/// Reads a page of the links that meet a condition on the columns of one index.
macro_rules! page_of_links {
    ($pool:expr, $search:expr, $from:literal) => {
        page_of_rows!(
            $pool,
            $search,
            ROWS_MAX,
            ["SELECT * " + $from + r#"
              AND generation = (
                  SELECT active_generation FROM read_model.projections WHERE projection = 'links'
              )
              AND link_id >= $3 AND link_id < $4
            ORDER BY link_id"#],
            [" LIMIT $5"]
        )
    };
}

/// Reads the page of a search, from one snapshot.
pub(crate) async fn find(
    pool: &PgPool,
    search: &LinkSearch,
) -> sqlx::Result<SnapshotRead<FoundLinks>> {
    // Hashes may collide. Not `account_id = $2` beside a hash: the planner could then use the primary key, and would walk all
    // links of the account.
    Ok(if search.external_id.is_some() {
        page_of_links!(
            pool,
            search,
            "FROM read_model.links
             WHERE hashtextextended(account_id::text || external_id, 0) = hashtextextended($2::uuid::text || $14, 0)
               AND account_id IS NOT DISTINCT FROM $2 AND external_id IS NOT NULL"
        )
    } else if search.destination_url.is_some() {
        page_of_links!(
            pool,
            search,
            "FROM read_model.links
             WHERE hashtextextended(account_id::text || destination_url, 0)
                   = hashtextextended($2::uuid::text || $9, 0)
               AND account_id IS NOT DISTINCT FROM $2"
        )
    } else if search.state == Some(StateFilter::Disabled) {
        page_of_links!(
            pool,
            search,
            "FROM read_model.links WHERE account_id = $2 AND disabled_by IS NOT NULL"
        )
    } else if search.tags.is_some() {
        find_tagged(pool, search).await?
    } else if search.slug_prefix.is_some() {
        find_by_slug_prefix(pool, search).await?
    } else if search.state == Some(StateFilter::Expired) {
        page_of_links!(
            pool,
            search,
            "FROM read_model.links WHERE account_id = $2 AND expires_at IS NOT NULL"
        )
    } else if search.destination_host.is_some() {
        page_of_links!(
            pool,
            search,
            "FROM read_model.links
             WHERE hashtextextended(
                       account_id::text || split_part(split_part(destination_url, '/', 3), ':', 1), 0
                   ) = hashtextextended($2::uuid::text || split_part($10, ':', 1), 0)
               AND account_id IS NOT DISTINCT FROM $2"
        )
    } else {
        page_of_links!(pool, search, "FROM read_model.links WHERE account_id = $2")
    })
}

/// Reads among the links whose slugs begin with the prefix: sorts their ids, or walks the list if as many as
/// [`ROWS_MAX_BESIDE_COUNT`] have the prefix.
async fn find_by_slug_prefix(
    pool: &PgPool,
    search: &LinkSearch,
) -> sqlx::Result<SnapshotRead<FoundLinks>> {
    Ok(page_of_rows!(
        pool,
        search,
        ROWS_MAX_BESIDE_COUNT,
        [r#"
        WITH matching AS MATERIALIZED (
            SELECT link_id FROM read_model.links
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'links'
                  )
              AND hashtextextended(account_id::text, 0) = hashtextextended($2::uuid::text, 0)
              AND lower(slug COLLATE "C") >= $7 AND lower(slug COLLATE "C") < $8
              AND account_id IS NOT DISTINCT FROM $2
            -- The order of the index of slugs: planned on an empty table, the primary key would seem as good.
            ORDER BY lower(slug COLLATE "C")
            LIMIT $5
        )
        (
            SELECT link.*
            FROM (
                SELECT link_id FROM matching
                WHERE (SELECT count(*) FROM matching) < $5
                  AND link_id >= $3 AND link_id < $4
                ORDER BY link_id"#],
        [r#"
            ) AS matching_link
            CROSS JOIN LATERAL (
                SELECT * FROM read_model.links
                WHERE generation = (
                          SELECT active_generation FROM read_model.projections
                          WHERE projection = 'links'
                      )
                  AND account_id = $2 AND link_id = matching_link.link_id
                LIMIT 1
            ) AS link
        )
        UNION ALL
        (
            SELECT * FROM read_model.links
            WHERE (SELECT count(*) FROM matching) >= $5
              AND generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'links'
                  )
              AND account_id = $2 AND link_id >= $3 AND link_id < $4
            ORDER BY link_id"#],
        [r#"
            LIMIT $5
        )
        "#]
    ))
}

/// Reads among the links with the first of the tags.
async fn find_tagged(pool: &PgPool, search: &LinkSearch) -> sqlx::Result<SnapshotRead<FoundLinks>> {
    Ok(page_of_rows!(
        pool,
        search,
        ROWS_MAX,
        [r#"
        SELECT * FROM (
            SELECT link_id FROM read_model.link_tags
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'links'
                  )
              AND account_id = $2 AND tag = ($13::text[])[1] AND link_id >= $3 AND link_id < $4
            ORDER BY link_id"#],
        [r#"
            LIMIT $5
        ) AS tagged
        LEFT JOIN LATERAL (
            SELECT * FROM read_model.links
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'links'
                  )
              AND account_id = $2 AND link_id = tagged.link_id
            LIMIT 1
        ) AS link USING (link_id)
        "#]
    ))
}
