//! Facts about the whole log that other processes follow: table `event_store.log_meta`.

use sqlx::PgPool;

use linkledger_core::cloud_event::RecordKey;

/// Epoch of the log, and price of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogMeta {
    /// Epoch, within which positions can be compared.
    pub epoch: i32,
    /// Price of a link, in credits: the setting of the command-api that started last.
    pub link_price: i64,
}

/// Reads the epoch of the log.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn epoch(pool: &PgPool) -> sqlx::Result<i32> {
    sqlx::query_scalar!("SELECT epoch FROM event_store.log_meta")
        .fetch_one(pool)
        .await
}

/// Reads the epoch of the log, and the price of a link.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read(pool: &PgPool) -> sqlx::Result<LogMeta> {
    sqlx::query_as!(
        LogMeta,
        "SELECT epoch, link_price FROM event_store.log_meta"
    )
    .fetch_one(pool)
    .await
}

/// Reads the key of the codes of the log's records.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn record_key(pool: &PgPool) -> sqlx::Result<RecordKey> {
    let key = sqlx::query_scalar!("SELECT record_key FROM event_store.log_meta")
        .fetch_one(pool)
        .await?;
    Ok(RecordKey::new(&key))
}

/// Reads the key of the codes of the records of clicks.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn click_record_key(pool: &PgPool) -> sqlx::Result<RecordKey> {
    let key = sqlx::query_scalar!("SELECT click_record_key FROM event_store.log_meta")
        .fetch_one(pool)
        .await?;
    Ok(RecordKey::new(&key))
}

/// Stores the price of a link, which query-api shows.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn store_link_price(pool: &PgPool, link_price: i64) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE event_store.log_meta SET link_price = $1 WHERE link_price <> $1",
        link_price
    )
    .execute(pool)
    .await?;
    Ok(())
}
