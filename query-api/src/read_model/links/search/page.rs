//! Statement of a page of rows, around a walk of one index, and the row that the statement returns.

use std::iter::zip;

use linkledger_core::id::LinkId;

use super::FoundLinks;
use crate::read_model::{SnapshotRead, Visibility, links::link_columns::LinkArrays};

/// Reads a page of the given rows: links in the order of the list, at most `$5`, which are only read until the page is full.
/// Each part of the statement but the last one ends with `ORDER BY link_id`. The rows have all columns of `read_model.links`,
/// and no slug if that table lacks the link.
///
/// Parameters: `$1` shard, `$2` account, `$3` and `$4` range of ids, `$5` most rows, `$6` most links of the page, `$7` and `$8`
/// range of folded slugs, `$9` destination, `$10` host, `$11` state, `$12` current time, `$13` tags, `$14` external id.
macro_rules! page_of_rows {
    ($pool:expr, $search:expr, $first:literal, $($rest:literal),+) => {{
        use $crate::read_model::links::search::LinkOrder;

        match $search.order {
            LinkOrder::NewestFirst => page_of_rows!(@ordered $pool, $search, $first $(+ " DESC " + $rest)+),
            LinkOrder::OldestFirst => page_of_rows!(@ordered $pool, $search, $first $(+ $rest)+),
        }
    }};
    (@ordered $pool:expr, $search:expr, $($rows:tt)+) => {{
        use linkledger_core::{link::SlugPrefix, shard::Shard};
        use $crate::read_model::{
            Visibility,
            links::{
                link_columns::{link_arrays, query_link_arrays},
                search::{LinkSearch, StateFilter, page::PageOfRows},
            },
        };

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
            search.rows_max(),
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
        Ok(PageOfRows {
            visibility: Visibility::new(page.epoch, page.position, page.is_parked),
            last_row: page.last_row,
            are_found: page.are_found,
            links: link_arrays!(page),
        })
    }};
}
pub(super) use page_of_rows;

/// Rows of a page, and the visibility of their snapshot.
pub(super) struct PageOfRows {
    /// Visibility by the checkpoint of the read model of links.
    pub(super) visibility: Visibility,
    /// Number of the last row of the page among all rows that were looked at.
    pub(super) last_row: i64,
    /// False for a last row that does not meet the filters.
    pub(super) are_found: Vec<bool>,
    pub(super) links: LinkArrays,
}

impl PageOfRows {
    pub(super) fn into_found(self, rows_max: i64) -> SnapshotRead<FoundLinks> {
        let last = self.links.link_ids.last().copied();
        let stopped_at = last.filter(|_| self.last_row == rows_max);
        let rows = zip(self.links.into_links(), self.are_found);
        let links = rows.filter_map(|(link, is_found)| is_found.then_some(link));
        self.visibility.with(FoundLinks {
            links: links.collect(),
            stopped_at: stopped_at.map(LinkId::from_uuid),
        })
    }
}
