//! Statements of a search, one for each index that a page can walk.

use linkledger_core::{
    http::link_body::LinkParts,
    id::LinkId,
    link::SlugPrefix,
    shard::{Position, Shard},
};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{FoundLinks, LinkOrder, LinkSearch, StateFilter};
use crate::read_model::{
    LogPosition, SnapshotRead, Visibility,
    links::{LinkView, detail_columns::DetailColumns},
};

/// Reads a page of the given rows: links in the order of the list, at most `$5`, which are only read until the page is full.
/// Each part of the statement but the last one ends with `ORDER BY link_id`. A link that the read table lacks has no slug;
/// `has_state` is true for links that are known to have the wanted state.
///
/// Parameters: `$1` shard, `$2` account, `$3` and `$4` range of ids, `$5` most rows, `$6` most links of the page, `$7` and `$8`
/// range of folded slugs, `$9` destination, `$10` host, `$11` state, `$12` current time, `$13` tags, `$14` external id.
macro_rules! page_of_rows {
    ($pool:expr, $search:expr, $first:literal, $($rest:literal),+) => {
        match $search.order {
            LinkOrder::NewestFirst => page_of_ordered_rows!($pool, $search, $first $(+ " DESC " + $rest)+),
            LinkOrder::OldestFirst => page_of_ordered_rows!($pool, $search, $first $(+ $rest)+),
        }
    };
}

/// Reads a page of rows whose statement has its order.
macro_rules! page_of_ordered_rows {
    ($pool:expr, $search:expr, $($rows:tt)+) => {{
        let search: &LinkSearch = $search;
        let slug_end = search.slug_prefix.as_ref().map(SlugPrefix::end);
        sqlx::query_as!(
            PageOfRows,
            r#"
            SELECT c.epoch, c.position,
                   r.epoch AS "redirects_epoch?", r.position AS "redirects_position?",
                   EXISTS (
                       SELECT FROM read_model.parked_accounts AS p
                       WHERE p.account_id = $2
                         AND (p.projection = c.projection AND p.generation = c.generation
                              OR p.projection = r.projection AND p.generation = r.generation)
                   ) AS "is_parked!",
                   l.last_row AS "last_row!", l.are_found AS "are_found!",
                   l.link_ids AS "link_ids!", l.slugs AS "slugs!",
                   l.destination_urls AS "destination_urls!", l.versions AS "versions!",
                   l.created_at AS "created_at!", l.titles AS "titles!: Vec<Option<String>>",
                   l.external_ids AS "external_ids!: Vec<Option<String>>",
                   l.tags AS "tags!: Vec<Option<String>>",
                   l.expires_at AS "expires_at!: Vec<Option<OffsetDateTime>>",
                   l.expired_urls AS "expired_urls!: Vec<Option<String>>",
                   l.disabled_by AS "disabled_by!: Vec<Option<String>>"
            FROM read_model.checkpoints AS c
            -- The state of a link is in another read model, which may lag behind this one.
            LEFT JOIN read_model.checkpoints AS r
              ON $11::text IS NOT NULL AND r.projection = 'redirects' AND r.shard = $1
             AND r.generation = (
                 SELECT active_generation FROM read_model.projections
                 WHERE projection = 'redirects'
             )
            CROSS JOIN LATERAL (
                SELECT coalesce(max(nth), 0) AS last_row,
                       coalesce(array_agg(is_found), '{}') AS are_found,
                       coalesce(array_agg(link_id), '{}') AS link_ids,
                       coalesce(array_agg(coalesce(slug, '')), '{}') AS slugs,
                       coalesce(array_agg(coalesce(destination_url, '')), '{}') AS destination_urls,
                       coalesce(array_agg(coalesce(version, 0)), '{}') AS versions,
                       coalesce(array_agg(coalesce(created_at, 'epoch')), '{}') AS created_at,
                       coalesce(array_agg(title), '{}') AS titles,
                       coalesce(array_agg(external_id), '{}') AS external_ids,
                       coalesce(array_agg(array_to_string(tags, ' ')), '{}') AS tags,
                       coalesce(array_agg(expires_at), '{}') AS expires_at,
                       coalesce(array_agg(expired_url), '{}') AS expired_urls,
                       coalesce(array_agg(disabled_by), '{}') AS disabled_by
                FROM (
                    SELECT numbered.link_id, slug, destination_url, version, created_at, title,
                           external_id, tags, expires_at, expired_url, disabled_by, nth, is_found
                    FROM (SELECT rows.*, row_number() OVER () AS nth FROM (
                        "#
                + $($rows)+
                + r#"
                    ) AS rows) AS numbered
                    LEFT JOIN LATERAL (
                        SELECT true AS is_disabled FROM read_model.redirects
                        WHERE $11::text IS NOT NULL AND NOT has_state
                          AND generation = (
                              SELECT active_generation FROM read_model.projections
                              WHERE projection = 'redirects'
                          )
                          AND account_id = $2 AND link_id = numbered.link_id
                          AND state = 'disabled'
                        LIMIT 1
                    ) AS redirect ON true
                    CROSS JOIN LATERAL (
                        SELECT slug IS NOT NULL
                               AND ($7::text IS NULL
                                    OR lower(slug COLLATE "C") >= $7
                                       AND lower(slug COLLATE "C") < $8::text)
                               AND ($9::text IS NULL OR destination_url = $9)
                               AND ($10::text IS NULL
                                    OR split_part(split_part(destination_url, '/', 3), ':', 1) = $10)
                               AND ($11 IS NULL OR has_state
                                    OR $11 = CASE WHEN is_disabled THEN 'disabled'
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
            "#,
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
        .await
    }};
}

/// Reads the links of the account.
pub(super) async fn by_account(pool: &PgPool, search: &LinkSearch) -> sqlx::Result<PageOfRows> {
    page_of_rows!(
        pool,
        search,
        r#"
        SELECT link_id, slug, destination_url, version, created_at, title, external_id, tags,
               expires_at, expired_url, disabled_by, false AS has_state
        FROM read_model.links
        WHERE generation = (
                  SELECT active_generation FROM read_model.projections
                  WHERE projection = 'links'
              )
          AND account_id = $2 AND link_id >= $3 AND link_id < $4
        ORDER BY link_id"#,
        r#"
        LIMIT $5
        "#
    )
}

/// Reads the links of the account with a destination, by a hash of both. Hashes may collide. Not `account_id = $2`: the planner
/// could then use the primary key, and would walk all links of the account.
pub(super) async fn by_destination(pool: &PgPool, search: &LinkSearch) -> sqlx::Result<PageOfRows> {
    page_of_rows!(
        pool,
        search,
        r#"
        SELECT link_id, slug, destination_url, version, created_at, title, external_id, tags,
               expires_at, expired_url, disabled_by, false AS has_state
        FROM read_model.links
        WHERE generation = (
                  SELECT active_generation FROM read_model.projections
                  WHERE projection = 'links'
              )
          AND hashtextextended(account_id::text || destination_url, 0)
              = hashtextextended($2::uuid::text || $9, 0)
          AND account_id IS NOT DISTINCT FROM $2 AND link_id >= $3 AND link_id < $4
        ORDER BY link_id"#,
        r#"
        LIMIT $5
        "#
    )
}

/// Reads the links of the account to a host, by a hash of both, as [`by_destination`].
pub(super) async fn by_host(pool: &PgPool, search: &LinkSearch) -> sqlx::Result<PageOfRows> {
    page_of_rows!(
        pool,
        search,
        r#"
        SELECT link_id, slug, destination_url, version, created_at, title, external_id, tags,
               expires_at, expired_url, disabled_by, false AS has_state
        FROM read_model.links
        WHERE generation = (
                  SELECT active_generation FROM read_model.projections
                  WHERE projection = 'links'
              )
          AND hashtextextended(
                  account_id::text || split_part(split_part(destination_url, '/', 3), ':', 1), 0
              ) = hashtextextended($2::uuid::text || $10, 0)
          AND account_id IS NOT DISTINCT FROM $2 AND link_id >= $3 AND link_id < $4
        ORDER BY link_id"#,
        r#"
        LIMIT $5
        "#
    )
}

/// Reads the link of the account with an external id, by a hash of both, as [`by_destination`].
pub(super) async fn by_external_id(pool: &PgPool, search: &LinkSearch) -> sqlx::Result<PageOfRows> {
    page_of_rows!(
        pool,
        search,
        r#"
        SELECT link_id, slug, destination_url, version, created_at, title, external_id, tags,
               expires_at, expired_url, disabled_by, false AS has_state
        FROM read_model.links
        WHERE generation = (
                  SELECT active_generation FROM read_model.projections
                  WHERE projection = 'links'
              )
          AND hashtextextended(account_id::text || external_id, 0)
              = hashtextextended($2::uuid::text || $14, 0)
          AND account_id IS NOT DISTINCT FROM $2 AND link_id >= $3 AND link_id < $4
          AND external_id IS NOT NULL
        ORDER BY link_id"#,
        r#"
        LIMIT $5
        "#
    )
}

/// Reads the links of the account that have an expiry.
pub(super) async fn among_expiring(pool: &PgPool, search: &LinkSearch) -> sqlx::Result<PageOfRows> {
    page_of_rows!(
        pool,
        search,
        r#"
        SELECT link_id, slug, destination_url, version, created_at, title, external_id, tags,
               expires_at, expired_url, disabled_by, false AS has_state
        FROM read_model.links
        WHERE generation = (
                  SELECT active_generation FROM read_model.projections
                  WHERE projection = 'links'
              )
          AND account_id = $2 AND link_id >= $3 AND link_id < $4 AND expires_at IS NOT NULL
        ORDER BY link_id"#,
        r#"
        LIMIT $5
        "#
    )
}

/// Reads the disabled links of the account. The read table of links may lack a link that the read table of redirects has.
pub(super) async fn among_disabled(pool: &PgPool, search: &LinkSearch) -> sqlx::Result<PageOfRows> {
    page_of_rows!(
        pool,
        search,
        r#"
        SELECT disabled.link_id, slug, destination_url, version, created_at, title, external_id, tags,
               expires_at, expired_url, disabled_by, true AS has_state
        FROM (
            SELECT link_id FROM read_model.redirects
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'redirects'
                  )
              AND account_id = $2 AND link_id >= $3 AND link_id < $4 AND state = 'disabled'
            ORDER BY link_id"#,
        r#"
            LIMIT $5
        ) AS disabled
        LEFT JOIN LATERAL (
            SELECT slug, destination_url, version, created_at, title, external_id, tags, expires_at,
                   expired_url, disabled_by
            FROM read_model.links
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'links'
                  )
              AND account_id = $2 AND link_id = disabled.link_id
            LIMIT 1
        ) AS link ON true
        "#
    )
}

/// Reads the links of the account whose slugs begin with the prefix: sorts their ids, or walks the list if more than a quarter of
/// `$5` have the prefix.
pub(super) async fn by_slug_prefix(pool: &PgPool, search: &LinkSearch) -> sqlx::Result<PageOfRows> {
    page_of_rows!(
        pool,
        search,
        r#"
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
            LIMIT $5::bigint / 4 + 1
        )
        (
            SELECT link.*, false AS has_state
            FROM (
                SELECT link_id FROM matching
                WHERE (SELECT count(*) FROM matching) <= $5 / 4
                  AND link_id >= $3 AND link_id < $4
                ORDER BY link_id"#,
        r#"
            ) AS matching_link
            CROSS JOIN LATERAL (
                SELECT link_id, slug, destination_url, version, created_at, title, external_id,
                       tags, expires_at, expired_url, disabled_by
                FROM read_model.links
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
            SELECT link_id, slug, destination_url, version, created_at, title, external_id, tags,
               expires_at, expired_url, disabled_by, false AS has_state
            FROM read_model.links
            WHERE (SELECT count(*) FROM matching) > $5 / 4
              AND generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'links'
                  )
              AND account_id = $2 AND link_id >= $3 AND link_id < $4
            ORDER BY link_id"#,
        r#"
            LIMIT $5
        )
        "#
    )
}

/// Reads the links of the account with the first of the tags.
pub(super) async fn by_tag(pool: &PgPool, search: &LinkSearch) -> sqlx::Result<PageOfRows> {
    page_of_rows!(
        pool,
        search,
        r#"
        SELECT tagged.link_id, slug, destination_url, version, created_at, title, external_id, tags,
               expires_at, expired_url, disabled_by, false AS has_state
        FROM (
            SELECT link_id FROM read_model.link_tags
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'links'
                  )
              AND account_id = $2 AND tag = ($13::text[])[1] AND link_id >= $3 AND link_id < $4
            ORDER BY link_id"#,
        r#"
            LIMIT $5
        ) AS tagged
        LEFT JOIN LATERAL (
            SELECT slug, destination_url, version, created_at, title, external_id, tags, expires_at,
                   expired_url, disabled_by
            FROM read_model.links
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'links'
                  )
              AND account_id = $2 AND link_id = tagged.link_id
            LIMIT 1
        ) AS link ON true
        "#
    )
}

/// One row: checkpoints, and the rows of a page as parallel arrays of equal length.
pub(super) struct PageOfRows {
    epoch: i32,
    position: Position,
    /// Checkpoint of the read model of redirects, if the page depends on the state of links.
    redirects_epoch: Option<i32>,
    redirects_position: Option<Position>,
    is_parked: bool,
    /// Number of the last row of the page among all rows that were looked at.
    last_row: i64,
    /// False for a last row that does not meet the filters.
    are_found: Vec<bool>,
    link_ids: Vec<Uuid>,
    slugs: Vec<String>,
    destination_urls: Vec<String>,
    versions: Vec<i64>,
    created_at: Vec<OffsetDateTime>,
    titles: Vec<Option<String>>,
    external_ids: Vec<Option<String>>,
    /// Tags separated by spaces, which no tag contains.
    tags: Vec<Option<String>>,
    expires_at: Vec<Option<OffsetDateTime>>,
    expired_urls: Vec<Option<String>>,
    disabled_by: Vec<Option<String>>,
}

impl PageOfRows {
    pub(super) fn into_found(self, rows_max: i64) -> SnapshotRead<FoundLinks> {
        let mut visibility = Visibility::new(self.epoch, self.position, self.is_parked);
        if let (Some(epoch), Some(position)) = (self.redirects_epoch, self.redirects_position) {
            let redirects = LogPosition { epoch, position };
            visibility.checkpoint = visibility.checkpoint.min(redirects);
        }
        let last = self.link_ids.last().copied().map(LinkId::from_uuid);
        let stopped_at = last.filter(|_| self.last_row == rows_max);
        let texts = self.slugs.into_iter().zip(self.destination_urls);
        let numbers = self.versions.into_iter().zip(self.created_at);
        let details = DetailColumns {
            titles: self.titles,
            external_ids: self.external_ids,
            tags: self.tags,
            expires_at: self.expires_at,
            expired_urls: self.expired_urls,
            disabled_by: self.disabled_by,
        };
        let rows = self.link_ids.into_iter().zip(texts).zip(numbers);
        let found = rows
            .zip(details.into_rows())
            .zip(self.are_found)
            .filter(|(_, is_found)| *is_found);
        let links = found.map(|(row, _)| {
            let (((link_id, (slug, destination_url)), (version, created_at)), optional) = row;
            let (details, disabled_by) = optional;
            LinkView {
                parts: LinkParts {
                    id: LinkId::from_uuid(link_id),
                    slug,
                    destination_url,
                    created_at,
                    details,
                    disabled_by,
                },
                version,
            }
        });
        visibility.with(FoundLinks {
            links: links.collect(),
            stopped_at,
        })
    }
}
