//! Whether a generation says what the one that is served says, at equal positions: bucket by bucket
//! of the tables' keys, counts and hashes that don't depend on the order of rows.

mod snapshot;
mod tables;

use std::fmt;

use tokio::time::Instant;

use self::snapshot::Snapshot;
use super::{Build, loading::Loader, reading::Readings};
use crate::read_models::Projection;

/// Rows of a bucket: some ten milliseconds of the database.
const BUCKET_ROWS: i64 = 10_000;
/// Most differences that are told.
pub const DIFFERENCES_MAX: usize = 100;

/// What has come of a comparison.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Comparison {
    /// Rows that are served.
    pub rows: u64,
    /// Buckets of them.
    pub buckets: u64,
    /// The first rows, or ranges of rows, in which the generations differ.
    pub differences: Vec<Difference>,
}

/// Rows in which two generations differ.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// Of this table.
    pub table: &'static str,
    /// After this key.
    pub after: String,
    /// Up to this key.
    pub up_to: String,
    /// How many rows are served there.
    pub served: i64,
    /// How many rows the other generation has there.
    pub built: i64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            table,
            after,
            up_to,
            served,
            built,
        } = self;
        write!(
            f,
            "{table} after {after} up to {up_to}: {served} rows are served, the other generation \
             has {built}"
        )?;
        if served == built {
            write!(f, ", which say something else")?;
        }
        Ok(())
    }
}

/// Rows after one key and up to another, in the order of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range<K> {
    after: K,
    up_to: K,
}

/// What rows of a generation come to.
#[derive(Debug)]
struct Digest<K> {
    rows: i64,
    /// The sum of their hashes; `None` for no rows.
    hash: Option<String>,
    /// The key of the last one.
    last: Option<K>,
}

impl<K> Digest<K> {
    fn says_the_same(&self, other: &Self) -> bool {
        self.rows == other.rows && self.hash == other.hash
    }
}

/// Compares the whole generation with the one that is served; `None` if that one stands still at an
/// earlier place.
///
/// # Errors
/// When the database does not answer, or no snapshot is had.
pub async fn compare(
    loader: &Loader,
    build: Build,
    readings: &mut Readings,
) -> anyhow::Result<Option<Comparison>> {
    let mut comparing = Comparing {
        loader,
        build,
        readings,
        snapshot: None,
        comparison: Comparison::default(),
    };
    let is_through = match build.projection {
        Projection::Links => comparing.table(&tables::Links).await?,
        Projection::Redirects => {
            comparing.table(&tables::Redirects).await?
                && comparing.table(&tables::StoppedAccounts).await?
        }
        Projection::Credits => {
            comparing.table(&tables::Balances).await? && comparing.table(&tables::Entries).await?
        }
    };
    Ok(is_through.then_some(comparing.comparison))
}

struct Comparing<'a> {
    loader: &'a Loader,
    build: Build,
    readings: &'a mut Readings,
    /// `None` when there is none yet, or it has expired.
    snapshot: Option<Snapshot>,
    comparison: Comparison,
}

impl Comparing<'_> {
    /// `false`: no snapshot can be had.
    async fn table<T: tables::Table>(&mut self, table: &T) -> anyhow::Result<bool> {
        let mut after = T::LOWEST;
        let mut rows = 0;
        loop {
            if self.loader.pace.is_bounded() {
                // No snapshot is kept while nothing is done.
                self.snapshot = None;
                self.loader.pace.take(rows).await;
            }
            let mut snapshot = match self.snapshot.take() {
                Some(snapshot) => snapshot,
                None => match snapshot::take(self.loader, self.build, self.readings).await? {
                    Some(snapshot) => snapshot,
                    None => return Ok(false),
                },
            };
            let whole = Range {
                after: after.clone(),
                up_to: T::highest(),
            };
            let served = table.served(&mut snapshot, &whole, BUCKET_ROWS).await?;
            let is_last = served.rows < BUCKET_ROWS;
            let range = Range {
                after,
                up_to: match &served.last {
                    Some(last) if !is_last => last.clone(),
                    Some(_) | None => T::highest(),
                },
            };
            after = range.up_to.clone();
            let built = table.built(&mut snapshot, &range, 2 * BUCKET_ROWS).await?;
            rows = served.rows.unsigned_abs();
            self.comparison.rows += rows;
            self.comparison.buckets += 1;
            self.loader.progress.advance(rows);
            if !served.says_the_same(&built) {
                self.narrow(table, &mut snapshot, range).await?;
            }
            if Instant::now() < snapshot.expires_at {
                self.snapshot = Some(snapshot);
            }
            if is_last {
                return Ok(true);
            }
        }
    }

    /// Halves the range as long as the snapshot lasts, down to single rows.
    async fn narrow<T: tables::Table>(
        &mut self,
        table: &T,
        snapshot: &mut Snapshot,
        range: Range<T::Key>,
    ) -> anyhow::Result<()> {
        let mut pending = vec![range];
        while let Some(range) = pending.pop() {
            if self.comparison.differences.len() == DIFFERENCES_MAX {
                return Ok(());
            }
            let served = table.served(snapshot, &range, BUCKET_ROWS).await?;
            let built = table.built(snapshot, &range, 2 * BUCKET_ROWS).await?;
            if served.says_the_same(&built) {
                continue;
            }
            let half = served.rows / 2;
            if half > 0 && Instant::now() < snapshot.expires_at {
                let earlier = table.served(snapshot, &range, half).await?;
                if let Some(middle) = earlier.last {
                    let (after, up_to) = (range.after, range.up_to);
                    pending.push(Range {
                        after: middle.clone(),
                        up_to,
                    });
                    pending.push(Range {
                        after,
                        up_to: middle,
                    });
                    continue;
                }
            }
            self.comparison.differences.push(Difference {
                table: T::NAME,
                after: T::text_of(&range.after),
                up_to: T::text_of(&range.up_to),
                served: served.rows,
                built: built.rows,
            });
        }
        Ok(())
    }
}
