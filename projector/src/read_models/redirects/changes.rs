//! Table `read_model.redirect_changes`: numbered changes, by which redirect caches drop stale
//! entries.
//!
//! Numbers have no gaps and become visible in order, because a transaction locks the counter row
//! until its commit. Checkpoints and rows are locked before the counter row, so that there is no
//! deadlock.
//!
//! Pruning deletes the lowest numbers, and never the highest. A follower, the task that polls the changes for a
//! cache, has missed changes if its next number is absent and a higher number exists.

use std::collections::BTreeSet;

use sqlx::PgConnection;
use uuid::Uuid;

/// Links and accounts whose redirects have changed. Creations are absent, because no cache stores
/// that a slug does not exist.
#[derive(Debug, Default)]
pub struct RedirectChanges {
    slug_keys: BTreeSet<String>,
    account_ids: BTreeSet<Uuid>,
}

impl RedirectChanges {
    /// Adds a link with an event after its creation.
    pub fn add_slug(&mut self, slug_key: &str) {
        if !self.slug_keys.contains(slug_key) {
            self.slug_keys.insert(slug_key.to_owned());
        }
    }

    /// Adds an account whose links were stopped or resumed.
    pub fn add_account(&mut self, account_id: Uuid) {
        self.account_ids.insert(account_id);
    }

    /// Appends the changes under the next numbers. The transaction must take no lock afterwards.
    ///
    /// # Errors
    /// Returns an error if the database fails, or if the wait for the counter exceeds `lock_timeout` (SQLSTATE 55P03).
    pub async fn append_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        let slugs = self
            .slug_keys
            .iter()
            .map(|slug| (Some(slug.as_str()), None));
        let accounts = self
            .account_ids
            .iter()
            .map(|account_id| (None, Some(*account_id)));
        let (slug_keys, account_ids): (Vec<Option<&str>>, Vec<Option<Uuid>>) =
            slugs.chain(accounts).unzip();
        if slug_keys.is_empty() {
            return Ok(());
        }
        // A follower remembers the numbers that it has read: a crash of Postgres must not roll the
        // numbers back, because the next changes would reuse them.
        sqlx::query!("SET LOCAL synchronous_commit = on")
            .execute(&mut *tx)
            .await?;
        let count = i64::try_from(slug_keys.len()).expect("as many as a batch has events at most");
        // The clock is read under the lock, so that times are in the order of the numbers.
        sqlx::query!(
            "
            WITH taken AS (
                UPDATE read_model.redirect_change_counter
                SET last_number = last_number + $1
                WHERE singleton
                RETURNING last_number - $1 AS before
            )
            INSERT INTO read_model.redirect_changes (number, slug_key, account_id, changed_at)
            SELECT taken.before + subject.place, subject.slug_key, subject.account_id,
                   clock_timestamp()
            FROM taken, unnest($2::text[], $3::uuid[]) WITH ORDINALITY
                AS subject (slug_key, account_id, place)
            ",
            count,
            &slug_keys as &[Option<&str>],
            &account_ids as &[Option<Uuid>]
        )
        .execute(tx)
        .await?;
        Ok(())
    }
}
