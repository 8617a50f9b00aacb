//! Table `read_model.redirect_changes`: what a redirect cache must forget, number by number.
//!
//! Numbers have no gaps and become visible in order, because the counter row is held to commit. It
//! is locked after checkpoints and rows, so whoever waits for it holds up nobody that it waits for.
//!
//! The table always ends with the newest number and begins wherever pruning has come to: a follower
//! whose next number is missing, though a higher one is there, has missed some.

use std::collections::BTreeSet;

use sqlx::PgConnection;
use uuid::Uuid;

/// What has changed for those who follow links; creations are not told of, because nobody caches
/// that there is nothing.
#[derive(Debug, Default)]
pub struct RedirectChanges {
    slugs_folded: BTreeSet<String>,
    account_ids: BTreeSet<Uuid>,
}

impl RedirectChanges {
    /// A link leads elsewhere, or nowhere, or somewhere again.
    pub fn add_slug(&mut self, slug_folded: &str) {
        if !self.slugs_folded.contains(slug_folded) {
            self.slugs_folded.insert(slug_folded.to_owned());
        }
    }

    /// All links of an account may be followed no longer, or again.
    pub fn add_account(&mut self, account_id: Uuid) {
        self.account_ids.insert(account_id);
    }

    /// Appends them under the next numbers. Nothing may be locked afterwards.
    ///
    /// # Errors
    /// When the database does not answer, or the counter is not had in time (SQLSTATE 55P03).
    pub async fn append_in_tx(&self, tx: &mut PgConnection) -> sqlx::Result<()> {
        let slugs = self
            .slugs_folded
            .iter()
            .map(|slug| (Some(slug.as_str()), None));
        let accounts = self
            .account_ids
            .iter()
            .map(|account_id| (None, Some(*account_id)));
        let (slugs_folded, account_ids): (Vec<Option<&str>>, Vec<Option<Uuid>>) =
            slugs.chain(accounts).unzip();
        if slugs_folded.is_empty() {
            return Ok(());
        }
        // A follower remembers the numbers that it has seen: a crash of Postgres must not take them
        // back and let them be given out again.
        sqlx::query!("SET LOCAL synchronous_commit = on")
            .execute(&mut *tx)
            .await?;
        let count = i64::try_from(slugs_folded.len()).expect("no more than a batch has events");
        // The clock is read under the lock: what has a higher number is not older.
        sqlx::query!(
            "
            WITH taken AS (
                UPDATE read_model.redirect_change_counter
                SET last_number = last_number + $1
                WHERE singleton
                RETURNING last_number - $1 AS before
            )
            INSERT INTO read_model.redirect_changes (number, slug_folded, account_id, changed_at)
            SELECT taken.before + subject.place, subject.slug_folded, subject.account_id,
                   clock_timestamp()
            FROM taken, unnest($2::text[], $3::uuid[]) WITH ORDINALITY
                AS subject (slug_folded, account_id, place)
            ",
            count,
            &slugs_folded as &[Option<&str>],
            &account_ids as &[Option<Uuid>]
        )
        .execute(tx)
        .await?;
        Ok(())
    }
}
