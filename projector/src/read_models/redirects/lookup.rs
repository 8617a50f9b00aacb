//! Rows of `read_model.redirects` and `read_model.stopped_accounts`, by key.

use linkledger_core::{
    id::{AccountId, LinkId},
    link::Expiry,
};
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

/// Row of `read_model.redirects`, with the state of its account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RedirectRow {
    pub slug_folded: String,
    pub link_id: LinkId,
    pub account_id: AccountId,
    pub destination_url: String,
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Expiry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expired_url: Option<String>,
    pub account_is_stopped: bool,
}

/// Returns the row of a slug.
pub(crate) async fn redirect_in_tx(
    tx: &mut PgConnection,
    generation: i32,
    slug_folded: &str,
) -> sqlx::Result<Option<RedirectRow>> {
    let row = sqlx::query!(
        "
        SELECT link_id, account_id, destination_url, state, expires_at, expired_url
        FROM read_model.redirects
        WHERE generation = $1 AND slug_folded = $2
        ",
        generation,
        slug_folded
    )
    .fetch_optional(tx)
    .await?;
    Ok(row.map(|row| RedirectRow {
        slug_folded: slug_folded.to_owned(),
        link_id: LinkId::from_uuid(row.link_id),
        account_id: AccountId::from_uuid(row.account_id),
        destination_url: row.destination_url,
        state: row.state,
        expires_at: row.expires_at.map(Expiry::at),
        expired_url: row.expired_url,
        account_is_stopped: false,
    }))
}

/// Returns true if the links of the account do not redirect.
pub(crate) async fn is_stopped_in_tx(
    tx: &mut PgConnection,
    generation: i32,
    account_id: Uuid,
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"
        SELECT EXISTS (
            SELECT FROM read_model.stopped_accounts WHERE generation = $1 AND account_id = $2
        ) AS "is_stopped!"
        "#,
        generation,
        account_id
    )
    .fetch_one(tx)
    .await
}
