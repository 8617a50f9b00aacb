//! Rows of `read_model.links`, by key.

use linkledger_core::{
    link::{DisabledBy, Expiry, LinkDetails, LinkState, Tags},
    timestamp,
};
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Tags>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Expiry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expired_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_by: Option<DisabledBy>,
}

impl LinkRow {
    /// Returns the row that the log wants after the event with the version and the state.
    pub(crate) fn wanted(state: &LinkState, version: i64) -> Self {
        let LinkDetails {
            title,
            external_id,
            tags,
            expires_at,
            expired_url,
        } = state.details.clone();
        Self {
            slug: state.slug.clone(),
            destination_url: state.destination_url.clone(),
            version,
            created_at: timestamp::format(state.created_at),
            title,
            external_id,
            tags,
            expires_at,
            expired_url,
            disabled_by: state.disabled_by(),
        }
    }
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
        SELECT slug, destination_url, version, created_at, title, external_id, tags, expires_at,
               expired_url, disabled_by
        FROM read_model.links
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
        title: row.title,
        external_id: row.external_id,
        tags: row.tags.and_then(Tags::of),
        expires_at: row.expires_at.map(Expiry::at),
        expired_url: row.expired_url,
        disabled_by: row.disabled_by.as_deref().and_then(DisabledBy::of_name),
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use linkledger_core::id::{AccountId, LinkId};
    use linkledger_testing as testing;
    use time::OffsetDateTime;

    use super::*;
    use crate::read_models::links::READ_MODEL;

    #[test]
    fn row_has_all_described_columns() {
        let (link_id, account_id) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let created = testing::link_created(
            LinkId::from_uuid(link_id),
            AccountId::from_uuid(account_id),
            "spring",
            "https://example.com/",
        );
        let mut state = LinkState::new(&created, OffsetDateTime::UNIX_EPOCH);
        state.disabled_by_operator = true;
        let row = LinkRow::wanted(&state, 1);
        let row = serde_json::to_value(row).unwrap();
        let shown: BTreeSet<&str> = row
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let described = READ_MODEL.tables[0].values.iter().map(|column| column.name);
        assert_eq!(shown, described.collect());
    }
}
