//! Rows of the counting `totals`.

use linkledger_core::click::tally::Totals;
use sqlx::PgConnection;

use super::{days, quarters};

/// Adds the counts to the stored rows.
pub(in crate::clicks) async fn add_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    totals: &Totals,
) -> sqlx::Result<()> {
    quarters::add_of_links_in_tx(tx, &totals.link_quarters).await?;
    days::add_of_links_in_tx(tx, &totals.link_days).await?;
    quarters::add_of_accounts_in_tx(tx, partition, &totals.account_quarters).await?;
    days::add_of_accounts_in_tx(tx, partition, &totals.account_days).await
}
