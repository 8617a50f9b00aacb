//! Key of the codes of the records of clicks.

use sqlx::PgPool;

use crate::cloud_event::RecordKey;

/// Reads the key with which recorders make the codes of their records, and the counting verifies them.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn record_key(pool: &PgPool) -> sqlx::Result<RecordKey> {
    let key = sqlx::query_scalar!("SELECT key FROM clicks.record_key")
        .fetch_one(pool)
        .await?;
    Ok(RecordKey::new(&key))
}
