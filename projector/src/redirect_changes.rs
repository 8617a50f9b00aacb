//! Table `read_model.redirect_changes`: what a redirect cache must forget, number by number.
//!
//! Numbers have no gaps and become visible in order, because the counter row is held to commit. It
//! is locked after checkpoints and rows, so whoever waits for it holds up nobody that it waits for.
//!
//! The table always ends with the newest number and begins wherever pruning has come to: a follower
//! whose next number is missing, though a higher one is there, has missed some.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Context as _;
use linkledger_core::event_store::time_limit::{ANSWER_TIME_MAX, within};
use sqlx::{PgConnection, PgPool};
use tokio::time::{self, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::retry;

/// How long a change can be followed.
const KEPT_FOR: Duration = Duration::from_mins(10);
/// How often old changes are looked for, unless there are more of them.
const PRUNE_INTERVAL: Duration = Duration::from_secs(10);
/// Most rows that one statement removes.
pub const PRUNED_MAX: u16 = 1_000;

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

/// Removes old changes, up to [`PRUNED_MAX`]: from the lowest number on, up to the first one that
/// is to be kept, and never the highest.
///
/// # Errors
/// When the database does not answer.
pub async fn prune(pool: &PgPool) -> sqlx::Result<u64> {
    let result = sqlx::query!(
        "
        WITH oldest AS (
            SELECT number, changed_at FROM read_model.redirect_changes
            ORDER BY number
            LIMIT $1::bigint + 1
        )
        DELETE FROM read_model.redirect_changes
        WHERE number < (
            SELECT coalesce(
                min(number) FILTER (WHERE changed_at > now() - make_interval(secs => $2)),
                max(number)
            )
            FROM oldest
        )
        ",
        i64::from(PRUNED_MAX),
        KEPT_FOR.as_secs_f64()
    )
    .execute(pool)
    .await?;
    Ok(result.rows_affected())
}

/// Prunes from time to time until the shutdown.
///
/// # Errors
/// When something happens that does not pass by itself.
pub async fn keep_pruned(pool: PgPool, shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut due = time::interval(PRUNE_INTERVAL);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = due.tick() => {}
            () = shutdown.cancelled() => return Ok(()),
        }
        let pruned = within(ANSWER_TIME_MAX, prune(&pool)).await;
        match pruned.context("can't prune redirect changes") {
            Ok(removed) if removed >= PRUNED_MAX.into() => due.reset_immediately(),
            Ok(_) => {}
            Err(error) if retry::passes_by_itself(&error) => {
                tracing::warn!(error = format!("{error:#}"), "trying again");
            }
            Err(error) => return Err(error),
        }
    }
}
