//! Tells if an earlier request has used an idempotency key, for requests whose body is not valid.

use axum::http::Uri;
use linkledger_core::{account::OPERATORS_EXTERNAL_ID, id::AccountId};
use linkledger_event_store::{
    accounts, api_keys, idempotency, links,
    time_limit::{READ_TIME_MAX, within},
    transaction::PoolTransaction,
};
use linkledger_http::{
    problem::Problem,
    request::{account_id, admin_link_id, key_id},
    storage::storage_unavailable,
};
use sqlx::PgPool;

use crate::admin::author::EffectKind;

/// Returns true if a request of this kind on what the path names has used the key.
///
/// # Errors
/// Returns `storage_unavailable` if the database fails or does not answer in time.
pub(crate) async fn is_used(
    pool: &PgPool,
    uri: &Uri,
    kind: EffectKind,
    key: &str,
) -> Result<bool, Problem> {
    let used = within(READ_TIME_MAX, find(pool, uri, kind, key)).await;
    used.map_err(|error| storage_unavailable(&error))
}

async fn find(pool: &PgPool, uri: &Uri, kind: EffectKind, key: &str) -> sqlx::Result<bool> {
    match account_of(pool, uri, kind, key).await? {
        Some(account_id) => is_used_by(pool, account_id, kind, key).await,
        None => Ok(false),
    }
}

/// Returns true if a request of this kind to the account has used the key.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn is_used_by(
    pool: &PgPool,
    account_id: AccountId,
    kind: EffectKind,
    key: &str,
) -> sqlx::Result<bool> {
    let mut tx = PoolTransaction::begin(pool).await?;
    let stored_key = kind.stored_key(key);
    let effect = idempotency::find_effect_in_tx(&mut tx, account_id, &stored_key).await?;
    tx.rollback().await?;
    Ok(effect.is_some())
}

/// Returns the account whose stream has the key: the created account, or the account that owns what the path names.
async fn account_of(
    pool: &PgPool,
    uri: &Uri,
    kind: EffectKind,
    key: &str,
) -> sqlx::Result<Option<AccountId>> {
    match kind {
        EffectKind::Account => {
            let mut tx = PoolTransaction::begin(pool).await?;
            let created = accounts::find_by_creation_key_in_tx(&mut tx, key).await?;
            tx.rollback().await?;
            Ok(created)
        }
        EffectKind::Webhook | EffectKind::RotateSecret => {
            accounts::find_by_external_id(pool, OPERATORS_EXTERNAL_ID).await
        }
        EffectKind::Rotate => match key_id(uri) {
            Ok(key_id) => Ok(api_keys::get(pool, key_id).await?.map(|key| key.account_id)),
            Err(_) => Ok(None),
        },
        EffectKind::Disable | EffectKind::Enable => match admin_link_id(uri) {
            Ok(link_id) => links::find_owner(pool, link_id).await,
            Err(_) => Ok(None),
        },
        EffectKind::Suspend
        | EffectKind::Resume
        | EffectKind::Key
        | EffectKind::Grant
        | EffectKind::Adjust
        | EffectKind::Balance
        | EffectKind::Refund
        | EffectKind::Revocation => Ok(account_id(uri).ok()),
    }
}
