//! Rows of keys, written in the transaction of their events.

use linkledger_core::{
    api_key::{ApiKeyIssued, KeyState},
    id::{AccountId, KeyId},
};
use linkledger_event_store::{
    accounts,
    api_keys::{self, ListedKey},
    transaction,
};
use linkledger_http::admin_views::KeyView;
use sqlx::PgPool;
use time::OffsetDateTime;

use super::NewSecret;
use crate::admin::{
    author::Request,
    error::{AdminError, AdminRefusal, AdminResult, violates},
    operator::Decision,
};

const SECRET_UNIQUE: &str = "api_keys_sha256_unique";

/// Reads a key without a lock: for its account, its prefix and its last use.
pub(super) async fn listed(request: &Request<'_>, key_id: KeyId) -> AdminResult<ListedKey> {
    let key = api_keys::get(request.pool, key_id).await;
    let key = key.map_err(AdminError::of_statement("look up the key"))?;
    Ok(key.ok_or(AdminRefusal::KeyNotFound(key_id))?)
}

/// Reads a key of the locked account.
pub(super) async fn get(decision: &mut Decision<'_>, key_id: KeyId) -> AdminResult<KeyState> {
    let key = api_keys::get_in_tx(&mut decision.tx, key_id).await;
    let key = key.map_err(AdminError::of_statement("read the key"))?;
    Ok(key.ok_or(AdminRefusal::KeyNotFound(key_id))?)
}

/// Returns the time by the clock of the database, which decides if a key is revoked.
pub(super) async fn database_now(decision: &mut Decision<'_>) -> AdminResult<OffsetDateTime> {
    let now = transaction::database_now(&mut decision.tx).await;
    now.map_err(AdminError::of_statement("read the clock of the database"))
}

/// Stores an issued key with its secret, and returns the first answer.
pub(super) async fn insert(
    decision: &mut Decision<'_>,
    issued: &ApiKeyIssued,
    secret: &NewSecret,
) -> AdminResult<KeyView> {
    let key = KeyState::new(issued, decision.now);
    let stored = secret.stored();
    let view = KeyView::of_state(&key, stored.prefix.clone());
    match api_keys::insert_in_tx(&mut decision.tx, &key, &stored).await {
        Ok(()) => Ok(match secret {
            NewSecret::Generated(secret) => view.with_secret(secret),
            NewSecret::Given(_) => view,
        }),
        Err(error) if violates(&error, &[SECRET_UNIQUE]) => Err(AdminRefusal::SecretTaken.into()),
        Err(error) => Err(AdminError::of_statement("store the key")(error)),
    }
}

pub(super) async fn update(decision: &mut Decision<'_>, key: &KeyState) -> AdminResult<()> {
    let updated = api_keys::update_in_tx(&mut decision.tx, key).await;
    updated.map_err(AdminError::of_statement("change the key"))
}

/// Lists the keys of an account, the oldest first.
///
/// # Errors
/// Returns an error if the account does not exist, or the database fails.
pub(super) async fn list(pool: &PgPool, account_id: AccountId) -> AdminResult<Vec<KeyView>> {
    let account = accounts::get(pool, account_id).await;
    let account = account.map_err(AdminError::of_statement("look up the account"))?;
    account.ok_or(AdminRefusal::AccountNotFound(account_id))?;
    let keys = api_keys::list(pool, account_id).await;
    let keys = keys.map_err(AdminError::of_statement("read the keys"))?;
    Ok(keys.into_iter().map(KeyView::from).collect())
}
