//! Salts of visitors' hashes, read from the database and kept in memory.

use std::sync::{Arc, PoisonError, RwLock};

use linkledger_clicks::VisitorSalt;
use sqlx::PgPool;
use time::{Date, Duration};

/// Salts of a few days. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Salts(Arc<RwLock<Vec<(Date, VisitorSalt)>>>);

impl Salts {
    /// Returns the salt of a UTC day, if it is known.
    pub(super) fn of(&self, day: Date) -> Option<VisitorSalt> {
        let salts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        salts
            .iter()
            .find(|(of, _)| *of == day)
            .map(|(_, salt)| *salt)
    }

    /// Returns true if the salts of `today` and of the day after are known.
    pub(super) fn are_complete(&self, today: Date) -> bool {
        let tomorrow = today.next_day();
        self.of(today).is_some() && tomorrow.is_none_or(|day| self.of(day).is_some())
    }

    /// Reads the salts of the days around `today`, and forgets all others. Clicks of yesterday may wait
    /// at midnight.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub(super) async fn read(&self, pool: &PgPool, today: Date) -> sqlx::Result<()> {
        let rows = sqlx::query!(
            "SELECT day, salt FROM clicks.salts WHERE day BETWEEN $1 AND $2",
            today.saturating_sub(Duration::DAY),
            today.saturating_add(Duration::DAY)
        )
        .fetch_all(pool)
        .await?;
        let salts = rows.into_iter();
        let salts = salts.filter_map(|row| Some((row.day, row.salt.try_into().ok()?)));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = salts.collect();
        Ok(())
    }
}
