//! Tables of statistics: the statements that add a tally to the stored rows.
//!
//! A statement has at most [`ROWS_MAX`] rows, in the order of the table's key; those of values are larger, and have
//! a smaller limit. The caller holds the position of the aggregation in the partition, so that no other session writes
//! the same rows between a read and a write.

mod days;
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

/// Adds a tally's statistics to the stored rows.
pub(super) async fn add_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    statistics: &Statistics,
) -> sqlx::Result<()> {
    let Statistics { totals, values } = statistics;
    slots::add_of_links_in_tx(tx, &totals.link_15min).await?;
    days::add_of_links_in_tx(tx, &totals.link_days).await?;
    slots::add_of_accounts_in_tx(tx, partition, &totals.account_15min).await?;
    days::add_of_accounts_in_tx(tx, partition, &totals.account_days).await?;
    values::add_of_links_in_tx(tx, &values.links).await?;
    values::add_of_accounts_in_tx(tx, partition, &values.accounts).await
}
