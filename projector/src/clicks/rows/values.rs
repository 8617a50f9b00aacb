//! Rows of the counting `values`.

use linkledger_core::click::tally::Values;
use sqlx::PgConnection;

use super::{account_values, link_values};

/// Adds the counts to the stored rows, after values beyond the first ones of their groups were put together.
pub(in crate::clicks) async fn add_in_tx(
    tx: &mut PgConnection,
    partition: u8,
    values: &mut Values,
) -> sqlx::Result<()> {
    let stored = link_values::stored_in_tx(tx, &values.links).await?;
    values.links.limit(&stored);
    link_values::add_in_tx(tx, &values.links, &stored).await?;
    let stored = account_values::stored_in_tx(tx, partition, &values.accounts).await?;
    values.accounts.limit(&stored);
    account_values::add_in_tx(tx, partition, &values.accounts, &stored).await
}
