//! Table `read_model.stopped_accounts`: accounts whose links do not redirect.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use uuid::Uuid;

/// Accounts to insert (`true`) or to delete (`false`), by generation and account.
pub(super) type StoppedAccounts = BTreeMap<(i32, Uuid), bool>;

pub(super) async fn write_in_tx(
    tx: &mut PgConnection,
    accounts: &StoppedAccounts,
) -> sqlx::Result<()> {
    let columns = |is_stopped: bool| -> (Vec<i32>, Vec<Uuid>) {
        let chosen = accounts.iter().filter(|(_, it)| **it == is_stopped);
        chosen.map(|(key, _)| *key).unzip()
    };
    let (generations, account_ids) = columns(true);
    if !generations.is_empty() {
        sqlx::query!(
            "
            INSERT INTO read_model.stopped_accounts (generation, account_id)
            SELECT * FROM unnest($1::integer[], $2::uuid[])
            ON CONFLICT (generation, account_id) DO NOTHING
            ",
            &generations,
            &account_ids
        )
        .execute(&mut *tx)
        .await?;
    }
    let (generations, account_ids) = columns(false);
    if !generations.is_empty() {
        sqlx::query!(
            "
            DELETE FROM read_model.stopped_accounts AS s
            USING unnest($1::integer[], $2::uuid[]) AS free (generation, account_id)
            WHERE s.generation = free.generation AND s.account_id = free.account_id
            ",
            &generations,
            &account_ids
        )
        .execute(tx)
        .await?;
    }
    Ok(())
}
