//! Admin keys of operators. Only an operator with access to the database issues and revokes them. The log has no
//! events of admin keys.

use serde::Serialize;
use sqlx::PgPool;
use time::OffsetDateTime;

use super::time_limit::read_on_live_session;
use linkledger_core::{
    api_key::{AdminKey, AdminScope},
    id::AdminKeyId,
    timestamp,
};

/// A stored admin key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAdminKey {
    /// Public id of the key.
    pub key_id: AdminKeyId,
    /// Scopes of the key; unknown scopes of later releases grant no permission.
    pub scopes: Vec<AdminScope>,
    /// Expiry: the key is refused from this time on.
    pub expires_at: Option<OffsetDateTime>,
    /// Revocation: the key is refused from this time on.
    pub revoked_at: Option<OffsetDateTime>,
    /// True if the key is revoked by the clock of the database.
    pub is_revoked: bool,
}

/// Finds a key by its hash.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find(pool: &PgPool, key: &AdminKey) -> sqlx::Result<Option<StoredAdminKey>> {
    let hash = key.sha256();
    read_on_live_session(|| find_hash(pool, &hash)).await
}

async fn find_hash(pool: &PgPool, hash: &[u8; 32]) -> sqlx::Result<Option<StoredAdminKey>> {
    let row = sqlx::query!(
        r#"
        SELECT key_id, scopes, expires_at, revoked_at,
               coalesce(revoked_at <= now(), false) AS "is_revoked!"
        FROM event_store.admin_keys
        WHERE sha256 = $1
        "#,
        &hash[..]
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| StoredAdminKey {
        key_id: AdminKeyId::from_uuid(row.key_id),
        scopes: row
            .scopes
            .iter()
            .filter_map(|name| AdminScope::of_name(name))
            .collect(),
        expires_at: row.expires_at,
        revoked_at: row.revoked_at,
        is_revoked: row.is_revoked,
    }))
}

/// An admin key to be stored.
#[derive(Debug)]
pub struct NewAdminKey<'a> {
    /// Public id of the key.
    pub key_id: AdminKeyId,
    /// The secret, of which only the hash is stored.
    pub secret: &'a AdminKey,
    /// Display name of the key.
    pub name: &'a str,
    /// Scopes of the key.
    pub scopes: &'a [AdminScope],
    /// Time at which the key was issued.
    pub created_at: OffsetDateTime,
    /// Name of the operator who issued the key.
    pub created_by: &'a str,
    /// Expiry: the key is refused from this time on.
    pub expires_at: Option<OffsetDateTime>,
}

/// Stores a new key.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn insert(pool: &PgPool, key: &NewAdminKey<'_>) -> sqlx::Result<()> {
    let scopes: Vec<String> = key.scopes.iter().map(ToString::to_string).collect();
    sqlx::query!(
        "
        INSERT INTO event_store.admin_keys
            (key_id, sha256, prefix, name, scopes, created_at, created_by, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ",
        key.key_id.uuid(),
        &key.secret.sha256()[..],
        key.secret.shown_prefix(),
        key.name,
        &scopes,
        key.created_at,
        key.created_by,
        key.expires_at
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// A stored admin key, as shown to operators.
#[derive(Debug, Clone, Serialize)]
pub struct ListedAdminKey {
    /// Public id of the key.
    #[serde(rename = "id")]
    pub key_id: AdminKeyId,
    /// Display name of the key.
    pub name: String,
    /// First characters of the secret.
    pub prefix: String,
    /// Names of the scopes, as stored.
    pub scopes: Vec<String>,
    /// Time at which the key was issued.
    #[serde(serialize_with = "timestamp::serialize")]
    pub created_at: OffsetDateTime,
    /// Name of the operator who issued the key.
    pub created_by: String,
    /// Expiry: the key is refused from this time on.
    #[serde(serialize_with = "timestamp::serialize")]
    pub expires_at: Option<OffsetDateTime>,
    /// Revocation: the key is refused from this time on.
    #[serde(serialize_with = "timestamp::serialize")]
    pub revoked_at: Option<OffsetDateTime>,
    /// Name of the operator who revoked the key.
    pub revoked_by: Option<String>,
}

/// Lists all keys, oldest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(pool: &PgPool) -> sqlx::Result<Vec<ListedAdminKey>> {
    sqlx::query_as!(
        ListedAdminKey,
        "
        SELECT key_id, name, prefix, scopes, created_at, created_by, expires_at, revoked_at,
               revoked_by
        FROM event_store.admin_keys
        ORDER BY key_id
        "
    )
    .fetch_all(pool)
    .await
}

/// Revokes a key at once, by the clock of the database; an earlier revocation stays. Returns the time of the
/// revocation, or `None` if there is no such key.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn revoke(
    pool: &PgPool,
    key_id: AdminKeyId,
    revoked_by: &str,
) -> sqlx::Result<Option<OffsetDateTime>> {
    sqlx::query_scalar!(
        r#"
        UPDATE event_store.admin_keys
        SET revoked_at = coalesce(revoked_at, date_trunc('milliseconds', now())),
            revoked_by = coalesce(revoked_by, $2)
        WHERE key_id = $1
        RETURNING revoked_at AS "revoked_at!"
        "#,
        key_id.uuid(),
        revoked_by
    )
    .fetch_optional(pool)
    .await
}
