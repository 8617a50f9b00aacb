//! Table `read_model.stopped_accounts`: accounts whose links do not redirect.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use uuid::Uuid;

/// Accounts to insert (`true`) or to delete (`false`), by generation and account.
#[derive(Debug, Default)]
pub(super) struct StoppedAccounts(BTreeMap<(i32, Uuid), bool>);

impl StoppedAccounts {
    pub(super) fn set(&mut self, key: (i32, Uuid), is_stopped: bool) {
        self.0.insert(key, is_stopped);
    }

    pub(super) async fn write_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        self.insert_in_tx(tx).await?;
        self.delete_in_tx(tx).await
    }

    async fn insert_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        let (generations, account_ids) = self.columns(true);
        if generations.is_empty() {
            return Ok(());
        }
        sqlx::query!(
            "
            INSERT INTO read_model.stopped_accounts (generation, account_id)
            SELECT * FROM unnest($1::integer[], $2::uuid[])
            ON CONFLICT (generation, account_id) DO NOTHING
            ",
            &generations,
            &account_ids
        )
        .execute(tx)
        .await?;
        Ok(())
    }

    async fn delete_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        let (generations, account_ids) = self.columns(false);
        if generations.is_empty() {
            return Ok(());
        }
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
        Ok(())
    }

    fn columns(&self, is_stopped: bool) -> (Vec<i32>, Vec<Uuid>) {
        let chosen = self.0.iter().filter(|(_, stopped)| **stopped == is_stopped);
        chosen.map(|(key, _)| *key).unzip()
    }
}
