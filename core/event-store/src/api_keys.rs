//! Stored API keys: found by their hash, with scopes and an expiry. Rows are written with the events of the keys.

use std::collections::HashMap;

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    log::{self, PerShard},
    time_limit::read_on_live_session,
    transaction::{PoolTransaction, SNAPSHOT},
};
use linkledger_core::{
    api_key::{ApiKey, KeyState, Scope},
    id::{AccountId, KeyId},
    shard::Position,
};

/// A stored API key.
#[derive(Debug, Clone)]
pub struct StoredKey {
    /// Public id of the key.
    pub key_id: KeyId,
    /// Account that the key acts for.
    pub account_id: AccountId,
    /// True if the account is suspended.
    pub account_is_suspended: bool,
    /// Scopes of the key.
    pub scopes: Vec<Scope>,
    /// Expiry: the key is refused from this time on.
    pub expires_at: Option<OffsetDateTime>,
    /// Revocation: the key is refused from this time on. May be in the future, so that a rotation
    /// of keys overlaps.
    pub revoked_at: Option<OffsetDateTime>,
    /// True if the key is revoked by the clock of the database.
    pub is_revoked: bool,
}

/// SHA-256 of the secret of an API key: all that is stored of the secret.
pub type KeyHash = [u8; 32];

/// Finds a key by its hash.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find(pool: &PgPool, key: &ApiKey) -> sqlx::Result<Option<StoredKey>> {
    let hash = [key.sha256()];
    let mut found = read_on_live_session(|| find_each(pool, &hash)).await?;
    Ok(found.pop().flatten())
}

/// Finds the key of each hash, in the order of the hashes.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_each(pool: &PgPool, hashes: &[KeyHash]) -> sqlx::Result<Vec<Option<StoredKey>>> {
    let hashes: Vec<&[u8]> = hashes.iter().map(<[u8; 32]>::as_slice).collect();
    let rows = sqlx::query_as!(
        KeyRow,
        r#"
        SELECT k.key_id AS "key_id?", k.account_id AS "account_id?", k.scopes AS "scopes?",
               k.expires_at, k.revoked_at, coalesce(k.revoked_at <= now(), false) AS "is_revoked!",
               k.status AS "status?"
        FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (sha256, nth)
        -- Not a join: planned on empty tables, it would read all keys.
        LEFT JOIN LATERAL (
            SELECT key_id, account_id, scopes, expires_at, revoked_at, (
                SELECT status FROM event_store.accounts
                WHERE account_id = stored.account_id
            ) AS status
            FROM event_store.api_keys AS stored
            WHERE sha256 = wanted.sha256
            LIMIT 1
        ) AS k ON true
        ORDER BY wanted.nth
        "#,
        &hashes as &[&[u8]]
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(KeyRow::into_key).collect())
}

/// Row of a look-up; nothing but NULL if there is no such key.
struct KeyRow {
    key_id: Option<Uuid>,
    account_id: Option<Uuid>,
    scopes: Option<Vec<String>>,
    expires_at: Option<OffsetDateTime>,
    revoked_at: Option<OffsetDateTime>,
    is_revoked: bool,
    status: Option<String>,
}

impl KeyRow {
    fn into_key(self) -> Option<StoredKey> {
        let scopes = self.scopes?;
        Some(StoredKey {
            key_id: KeyId::from_uuid(self.key_id?),
            account_id: AccountId::from_uuid(self.account_id?),
            account_is_suspended: self.status? != "active",
            // Unknown scopes of later releases grant no permission.
            scopes: scopes
                .iter()
                .filter_map(|name| Scope::of_name(name))
                .collect(),
            expires_at: self.expires_at,
            revoked_at: self.revoked_at,
            is_revoked: self.is_revoked,
        })
    }
}

/// Secret of a key, as stored: the secret itself is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySecret {
    /// SHA-256 of the secret.
    pub sha256: KeyHash,
    /// First characters of the secret, by which people recognise it.
    pub prefix: String,
}

impl KeySecret {
    /// Returns what is stored of a secret.
    pub fn of(secret: &ApiKey) -> Self {
        Self {
            sha256: secret.sha256(),
            prefix: secret.shown_prefix().to_owned(),
        }
    }
}

/// Stores a new key, as its event says. The caller must have locked the account.
///
/// # Errors
/// Returns an error if the database fails, or another key has the secret (`api_keys_sha256_unique`).
pub async fn insert_in_tx(
    tx: &mut PgConnection,
    key: &KeyState,
    secret: &KeySecret,
) -> sqlx::Result<()> {
    sqlx::query!(
        "
        INSERT INTO event_store.api_keys
            (key_id, account_id, sha256, prefix, name, scopes, created_at, expires_at, revoked_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ",
        key.key_id.uuid(),
        key.account_id.uuid(),
        &secret.sha256[..],
        secret.prefix,
        key.name,
        &key.scopes,
        key.created_at,
        key.expires_at,
        key.revoked_at
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Stores name, scopes, expiry and revocation of a key, as its last event says. The caller must have locked the
/// account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn update_in_tx(tx: &mut PgConnection, key: &KeyState) -> sqlx::Result<()> {
    sqlx::query!(
        "
        UPDATE event_store.api_keys
        SET name = $3, scopes = $4, expires_at = $5, revoked_at = $6
        WHERE key_id = $1 AND account_id = $2
        ",
        key.key_id.uuid(),
        key.account_id.uuid(),
        key.name,
        &key.scopes,
        key.expires_at,
        key.revoked_at
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Reads a key. The caller must have locked the key's account, so that the key stays as it is.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn get_in_tx(tx: &mut PgConnection, key_id: KeyId) -> sqlx::Result<Option<KeyState>> {
    sqlx::query_as!(
        KeyState,
        r#"
        SELECT account_id, key_id, name, scopes, created_at, expires_at, revoked_at
        FROM event_store.api_keys
        WHERE key_id = $1
        "#,
        key_id.uuid()
    )
    .fetch_optional(tx)
    .await
}

/// A stored API key, as shown to operators.
#[derive(Debug, Clone)]
pub struct ListedKey {
    /// Public id of the key.
    pub key_id: KeyId,
    /// Account that the key acts for.
    pub account_id: AccountId,
    /// Display name of the key.
    pub name: String,
    /// First characters of the secret.
    pub prefix: String,
    /// Names of the scopes, as stored.
    pub scopes: Vec<String>,
    /// Time at which the key was issued.
    pub created_at: OffsetDateTime,
    /// Expiry: the key is refused from this time on.
    pub expires_at: Option<OffsetDateTime>,
    /// Revocation: the key is refused from this time on.
    pub revoked_at: Option<OffsetDateTime>,
    /// Time of the last use, accurate to about two minutes; `None` if the key was never used.
    pub last_used_at: Option<OffsetDateTime>,
}

/// Lists the keys of an account, oldest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(pool: &PgPool, account_id: AccountId) -> sqlx::Result<Vec<ListedKey>> {
    sqlx::query_as!(
        ListedKey,
        r#"
        SELECT key_id, account_id, name, prefix, scopes,
               created_at, expires_at, revoked_at, last_used_at
        FROM event_store.api_keys
        WHERE account_id = $1
        ORDER BY key_id
        "#,
        account_id.uuid()
    )
    .fetch_all(pool)
    .await
}

/// Lists up to `limit` keys of an account with ids after `after`, oldest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list_after(
    pool: &PgPool,
    account_id: AccountId,
    after: Option<KeyId>,
    limit: i64,
) -> sqlx::Result<Vec<ListedKey>> {
    sqlx::query_as!(
        ListedKey,
        r#"
        SELECT key_id, account_id, name, prefix, scopes,
               created_at, expires_at, revoked_at, last_used_at
        FROM event_store.api_keys
        WHERE account_id = $1 AND key_id > $2
        ORDER BY key_id
        LIMIT $3
        "#,
        account_id.uuid(),
        after.map_or(Uuid::nil(), KeyId::uuid),
        limit
    )
    .fetch_all(pool)
    .await
}

/// Numbers of keys of an account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyCount {
    /// Keys ever issued.
    pub issued: i64,
    /// Keys that are neither revoked nor expired.
    pub valid: i64,
}

/// Counts the keys of accounts, as of `at`. Accounts without keys are missing in the result.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn count(
    pool: &PgPool,
    account_ids: &[AccountId],
    at: OffsetDateTime,
) -> sqlx::Result<HashMap<AccountId, KeyCount>> {
    let account_ids: Vec<Uuid> = account_ids.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query!(
        r#"
        SELECT account_id, count(*) AS "issued!",
               count(*) FILTER (
                   WHERE (revoked_at IS NULL OR revoked_at > $2)
                     AND (expires_at IS NULL OR expires_at > $2)
               ) AS "valid!"
        FROM event_store.api_keys
        WHERE account_id = ANY($1)
        GROUP BY account_id
        "#,
        &account_ids,
        at
    )
    .fetch_all(pool)
    .await?;
    let counts = rows.into_iter().map(|row| {
        let (issued, valid) = (row.issued, row.valid);
        (row.account_id.into(), KeyCount { issued, valid })
    });
    Ok(counts.collect())
}

/// Reads the key with this public id.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn get(pool: &PgPool, key_id: KeyId) -> sqlx::Result<Option<ListedKey>> {
    sqlx::query_as!(
        ListedKey,
        r#"
        SELECT key_id, account_id, name, prefix, scopes,
               created_at, expires_at, revoked_at, last_used_at
        FROM event_store.api_keys
        WHERE key_id = $1
        "#,
        key_id.uuid()
    )
    .fetch_optional(pool)
    .await
}

/// Settings of a transaction that may be lost: the commit does not wait for the disk or a standby, and a
/// process that stands still does not keep its locks.
const SET_UNIMPORTANT: &str =
    "SET LOCAL synchronous_commit = off; SET LOCAL idle_in_transaction_session_timeout = '3s'";

/// Records the times at which keys were used, at most once a minute for each key across all
/// processes. Skips keys that another session has locked, so that no session waits.
///
/// A commit that waited for a missing synchronous standby would outlive its client: each batch would leave
/// another session behind, until Postgres accepts no more.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn record_uses(pool: &PgPool, uses: &HashMap<KeyId, OffsetDateTime>) -> sqlx::Result<()> {
    let (key_ids, used_at): (Vec<Uuid>, Vec<OffsetDateTime>) =
        uses.iter().map(|(key_id, at)| (key_id.uuid(), *at)).unzip();
    let mut tx = PoolTransaction::begin(pool).await?;
    sqlx::raw_sql(SET_UNIMPORTANT).execute(&mut *tx).await?;
    sqlx::query!(
        r#"
        WITH due AS (
            SELECT k.key_id, used.used_at
            FROM unnest($1::uuid[], $2::timestamptz[]) AS used (key_id, used_at)
            JOIN event_store.api_keys AS k USING (key_id)
            WHERE k.last_used_at IS NULL OR k.last_used_at <= used.used_at - interval '1 minute'
            FOR NO KEY UPDATE OF k SKIP LOCKED
        )
        UPDATE event_store.api_keys AS k
        SET last_used_at = due.used_at
        FROM due
        WHERE k.key_id = due.key_id
        "#,
        &key_ids,
        &used_at
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await
}

/// Number of keys that one statement reads.
const KEYS_PER_READ: i64 = 5_000;

/// Reads all keys, in one read-only transaction, and calls `take` with each. Returns the head of each shard in the
/// same snapshot.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_each(
    pool: &PgPool,
    mut take: impl FnMut(KeyState),
) -> sqlx::Result<PerShard<Position>> {
    let mut tx = PoolTransaction::begin_with(pool, SNAPSHOT).await?;
    let heads = log::heads(&mut *tx).await?;
    let mut after = Uuid::nil();
    loop {
        let page = sqlx::query_as!(
            KeyState,
            "
            SELECT account_id, key_id, name, scopes, created_at, expires_at, revoked_at
            FROM event_store.api_keys
            WHERE key_id > $1
            ORDER BY key_id
            LIMIT $2
            ",
            after,
            KEYS_PER_READ
        );
        let page = page.fetch_all(&mut *tx).await?;
        let Some(last) = page.last() else { break };
        after = last.key_id.uuid();
        page.into_iter().for_each(&mut take);
    }
    tx.rollback().await?;
    Ok(heads)
}
