//! Rows of `read_model.links`, by key.

use linkledger_core::timestamp;
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

/// Maximum number of links of an account that are counted.
pub(crate) const LINKS_COUNTED_MAX: i64 = 1_000;

/// Row of `read_model.links`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkRow {
    pub slug: String,
    pub destination_url: String,
    pub version: i64,
    pub created_at: String,
}

/// Returns the row of a link.
pub(crate) async fn link_in_tx(
    tx: &mut PgConnection,
    generation: i32,
    account_id: Uuid,
    link_id: Uuid,
) -> sqlx::Result<Option<LinkRow>> {
    let row = sqlx::query!(
        "
        SELECT slug, destination_url, version, created_at FROM read_model.links
        WHERE generation = $1 AND account_id = $2 AND link_id = $3
        ",
        generation,
        account_id,
        link_id
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| LinkRow {
        slug: row.slug,
        destination_url: row.destination_url,
        version: row.version,
        created_at: timestamp::format(row.created_at),
    }))
}

/// Returns the number of links of the account, up to [`LINKS_COUNTED_MAX`].
pub(crate) async fn links_in_tx(
    tx: &mut PgConnection,
    generation: i32,
    account_id: Uuid,
) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"
        SELECT count(*) AS "links!" FROM (
            SELECT FROM read_model.links WHERE generation = $1 AND account_id = $2 LIMIT $3
        ) AS counted
        "#,
        generation,
        account_id,
        LINKS_COUNTED_MAX
    )
    .fetch_one(tx)
    .await
}
