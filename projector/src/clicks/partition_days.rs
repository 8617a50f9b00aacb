//! Days of which the tables of statistics have partitions.

use std::collections::BTreeSet;

use linkledger_clicks::{Click, tally::PartitionRecord};
use linkledger_event_store::errors;
use sqlx::PgPool;
use time::{Date, UtcOffset};

/// SQLSTATE of a day that is too old, or too far ahead, for partitions.
const INVALID_DAY: &str = "22023";
/// Days that are remembered; more than the days that are counted.
const DAYS_MAX: usize = 1_000;

/// Days whose partitions this process has created or found.
#[derive(Debug, Default)]
pub(super) struct PartitionDays(BTreeSet<Date>);

impl PartitionDays {
    /// Creates the partitions of days that are not known to have them.
    ///
    /// # Errors
    /// Returns an error if the database fails, or another session locks a table.
    pub(super) async fn ensure(&mut self, pool: &PgPool, days: BTreeSet<Date>) -> sqlx::Result<()> {
        if self.0.len() + days.len() > DAYS_MAX {
            self.0.clear();
        }
        for day in days {
            if !self.0.contains(&day) {
                create(pool, day).await?;
                self.0.insert(day);
            }
        }
        Ok(())
    }

    /// Forgets all days, after a partition was missing.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// Returns the day of a click.
pub(super) fn day_of(click: &Click) -> Date {
    click.clicked_at.to_offset(UtcOffset::UTC).date()
}

/// Returns the days of the clicks of records.
pub(super) fn days_of<'a>(
    records: impl IntoIterator<Item = &'a PartitionRecord>,
) -> BTreeSet<Date> {
    let clicks = records.into_iter().filter_map(|it| it.click.as_ref());
    clicks.map(day_of).collect()
}

/// Creates the partitions of a day, unless the day is too old or too far ahead: then none of its clicks counts.
pub(super) async fn create(pool: &PgPool, day: Date) -> sqlx::Result<()> {
    let created = sqlx::query_scalar!("SELECT clicks.create_partitions($1)", day)
        .fetch_one(pool)
        .await;
    match created {
        Err(error) if errors::sqlstate(&error).is_some_and(|state| state == INVALID_DAY) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}
