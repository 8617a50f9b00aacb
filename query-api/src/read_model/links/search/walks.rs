//! Walks of a search, one for each index: the rows that a page looks at.

use sqlx::PgPool;

use super::{
    LinkSearch,
    page::{PageOfRows, page_of_rows},
};

/// Reads the links of the account.
pub(super) async fn by_account(pool: &PgPool, search: &LinkSearch) -> sqlx::Result<PageOfRows> {
    page_of_rows!(
        pool,
        search,
        r#"
        SELECT * FROM read_model.links
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
        SELECT * FROM read_model.links
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
        SELECT * FROM read_model.links
        WHERE generation = (
                  SELECT active_generation FROM read_model.projections
                  WHERE projection = 'links'
              )
          AND hashtextextended(
                  account_id::text || split_part(split_part(destination_url, '/', 3), ':', 1), 0
              ) = hashtextextended($2::uuid::text || split_part($10, ':', 1), 0)
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
        SELECT * FROM read_model.links
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
        SELECT * FROM read_model.links
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

/// Reads the disabled links of the account.
pub(super) async fn among_disabled(pool: &PgPool, search: &LinkSearch) -> sqlx::Result<PageOfRows> {
    page_of_rows!(
        pool,
        search,
        r#"
        SELECT * FROM read_model.links
        WHERE generation = (
                  SELECT active_generation FROM read_model.projections
                  WHERE projection = 'links'
              )
          AND account_id = $2 AND link_id >= $3 AND link_id < $4 AND disabled_by IS NOT NULL
        ORDER BY link_id"#,
        r#"
        LIMIT $5
        "#
    )
}

/// Reads the links of the account whose slugs begin with the prefix: sorts their ids, or walks the list if `$5` or more
/// have the prefix.
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
            LIMIT $5
        )
        (
            SELECT link.*
            FROM (
                SELECT link_id FROM matching
                WHERE (SELECT count(*) FROM matching) < $5
                  AND link_id >= $3 AND link_id < $4
                ORDER BY link_id"#,
        r#"
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
        SELECT * FROM (
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
            SELECT * FROM read_model.links
            WHERE generation = (
                      SELECT active_generation FROM read_model.projections
                      WHERE projection = 'links'
                  )
              AND account_id = $2 AND link_id = tagged.link_id
            LIMIT 1
        ) AS link USING (link_id)
        "#
    )
}
