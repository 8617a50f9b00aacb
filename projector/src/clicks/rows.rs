//! Tables of statistics: the statements that add a tally to the stored rows.
//!
//! A statement has at most [`ROWS_MAX`] rows, in the order of the table's key; those of values are larger, and have
//! a smaller limit. The caller holds the position of the aggregation in the partition, so that no other session writes
//! the same rows between a read and a write.

mod days;
mod first_clicks;
mod minutes;
mod slots;
mod values;
mod visitors;

use linkledger_clicks::tally::Statistics;
use sqlx::PgConnection;

/// Maximum number of rows of one statement.
const ROWS_MAX: usize = 2_000;

/// Returns a count as stored.
fn stored(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// First count of clicks, or a recount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counting {
    /// The clicks become events of the log.
    First,
    /// The clicks were counted before, and become no events again.
    Again,
}

/// Adds a tally's statistics to the stored rows, and at the first count the rows of which events are made.
pub(super) async fn add_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    statistics: &Statistics,
    counting: Counting,
) -> sqlx::Result<()> {
    let Statistics { totals, values } = statistics;
    slots::add_of_links_in_tx(tx, &totals.link_15min).await?;
    let first_clicks = days::add_of_links_in_tx(tx, &totals.link_days).await?;
    slots::add_of_accounts_in_tx(tx, partition, &totals.account_15min).await?;
    days::add_of_accounts_in_tx(tx, partition, &totals.account_days).await?;
    values::add_of_links_in_tx(tx, &values.links).await?;
    values::add_of_accounts_in_tx(tx, partition, &values.accounts).await?;
    if counting == Counting::First && has_log_in_tx(tx).await? {
        first_clicks::add_in_tx(tx, &first_clicks).await?;
        minutes::add_in_tx(tx, &totals.link_minutes).await?;
    }
    Ok(())
}

/// Returns true if the log is in the same database. Rows beside a log on another server would stay for ever: nobody can
/// claim them in the transaction that appends their event.
async fn has_log_in_tx(tx: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::query_scalar!(r#"SELECT to_regclass('event_store.webhooks') IS NOT NULL AS "has_log!""#)
        .fetch_one(tx)
        .await
}
