//! Console sessions: each code opens the console of an account's owner once, within its lifetime by the clock of the
//! database. The log has no events of sessions; it has that of the key for which a code is exchanged.

use sqlx::{PgConnection, PgPool};
use time::{Duration, OffsetDateTime};

use super::time_limit::read_on_live_session;
use linkledger_core::{
    api_key::Scope,
    console_code::ConsoleCode,
    id::{AccountId, AdminKeyId},
};

/// Number of expired sessions that each new one deletes at most: more than one, so that their number falls.
const DELETED_MAX: i64 = 100;

/// A session that waits for the exchange of its code: the scopes of the key, and the way back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleSession {
    /// Account that the key acts for.
    pub account_id: AccountId,
    /// Scopes of the key.
    pub scopes: Vec<Scope>,
    /// Address to which the console shows a way back.
    pub return_url: Option<String>,
    /// Admin key that has opened the session: the author of the key.
    pub opened_by: AdminKeyId,
}

/// Stores a session under a new code, and deletes sessions that have expired. Returns the expiry of the code.
///
/// # Errors
/// Returns an error if the database fails, or the account does not exist (`console_sessions_account_known`).
pub async fn insert(
    pool: &PgPool,
    code: &ConsoleCode,
    session: &ConsoleSession,
    lifetime: Duration,
) -> sqlx::Result<OffsetDateTime> {
    let scopes = Scope::names(&session.scopes);
    sqlx::query_scalar!(
        "
        WITH expired AS (
            SELECT code_sha256
            FROM event_store.console_sessions
            WHERE expires_at <= now()
            ORDER BY expires_at
            LIMIT $7
            FOR UPDATE SKIP LOCKED
        ), deleted AS (
            DELETE FROM event_store.console_sessions AS s
            USING expired
            WHERE s.code_sha256 = expired.code_sha256
        )
        INSERT INTO event_store.console_sessions
            (code_sha256, account_id, scopes, return_url, opened_by, expires_at)
        VALUES (
            $1, $2, $3, $4, $5, date_trunc('milliseconds', now()) + make_interval(secs => $6)
        )
        RETURNING expires_at
        ",
        &code.sha256()[..],
        session.account_id.uuid(),
        &scopes,
        session.return_url.as_deref(),
        session.opened_by.uuid(),
        lifetime.as_seconds_f64(),
        DELETED_MAX
    )
    .fetch_one(pool)
    .await
}

/// Finds the session of a code that was not exchanged and has not expired, of an admin key that is valid. A session
/// never changes.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find(pool: &PgPool, code: &ConsoleCode) -> sqlx::Result<Option<ConsoleSession>> {
    let hash = code.sha256();
    read_on_live_session(|| find_hash(pool, &hash)).await
}

async fn find_hash(pool: &PgPool, hash: &[u8; 32]) -> sqlx::Result<Option<ConsoleSession>> {
    let row = sqlx::query!(
        "
        SELECT s.account_id, s.scopes, s.return_url, s.opened_by
        FROM event_store.console_sessions AS s
        JOIN event_store.admin_keys AS k ON k.key_id = s.opened_by
        WHERE s.code_sha256 = $1 AND s.expires_at > now()
          AND coalesce(k.revoked_at > now(), true) AND coalesce(k.expires_at > now(), true)
        ",
        &hash[..]
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.and_then(|row| {
        // A later release may have stored another scope.
        let scopes = row.scopes.iter().map(|name| Scope::of_name(name));
        Some(ConsoleSession {
            account_id: AccountId::from_uuid(row.account_id),
            scopes: scopes.collect::<Option<_>>()?,
            return_url: row.return_url,
            opened_by: AdminKeyId::from_uuid(row.opened_by),
        })
    }))
}

/// Deletes the session of a code. Returns false if another exchange has deleted it, or it has expired. The caller must
/// have locked the account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn delete_in_tx(tx: &mut PgConnection, code: &ConsoleCode) -> sqlx::Result<bool> {
    let deleted = sqlx::query!(
        "
        DELETE FROM event_store.console_sessions
        WHERE code_sha256 = $1 AND expires_at > now()
        ",
        &code.sha256()[..]
    )
    .execute(tx)
    .await?;
    Ok(deleted.rows_affected() == 1)
}
