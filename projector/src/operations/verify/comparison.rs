//! Compares the rows of a table with the rows that the log expects: counts, and the first wrong rows
//! by name.
//!
//! The log says the keys and hashes of the expected rows; the table is compared with them. Both are
//! asked again only about wrong rows.

use anyhow::Context as _;
use linkledger_core::shard::Position;
use sqlx::{AssertSqlSafe, FromRow};
use uuid::Uuid;

use super::{
    VerificationReport,
    exceptions::{Exceptions, Statement},
    findings::{FindingKind, FindingPlace, FoundRow, NAMED_MAX, VerifyFinding},
    row_keys::RowKeys,
    snapshot::{LogBucket, ShardSnapshot},
    statements,
};
use crate::read_models::description::{Column, ReadTable};

/// Events whose rows are compared.
#[derive(Debug, Clone)]
pub(super) enum ComparedEvents {
    /// All events of a bucket.
    Bucket(LogBucket),
    /// The rare events of a table, by their positions in the whole shard.
    Rare(Vec<Position>),
}

/// Row of [`statements::expected`].
#[derive(FromRow)]
struct ExpectedRow {
    account_ids: Vec<Uuid>,
    row_ids: Vec<Option<Uuid>>,
    rests: Vec<String>,
    hashes: Vec<Option<i64>>,
}

/// Row of [`statements::compare`].
#[derive(FromRow)]
struct ComparedRow {
    found_count: i64,
    /// Numbers of the wrong keys, from 1.
    wrong: Vec<i64>,
    /// True for each wrong key whose row is in the table.
    are_found: Vec<bool>,
}

/// Row of [`statements::values`] and [`statements::expected_values`].
#[derive(FromRow)]
struct ValuesRow {
    nth: i64,
    hashes: Vec<Option<i64>>,
}

/// Row of [`statements::events_of_rows`].
#[derive(Debug, FromRow)]
pub(super) struct WrongRow {
    pub(super) account_id: Uuid,
    /// Columns of the key, as text.
    pub(super) key: Vec<String>,
    /// Positions of the events from which the projection writes the row; empty for an orphan.
    pub(super) positions: Vec<Position>,
}

/// Comparison of the rows of a table that some events determine.
pub(super) struct Comparison<'a> {
    snapshot: &'a mut ShardSnapshot,
    table: &'static ReadTable,
    exceptions: &'a Exceptions,
    events: &'a ComparedEvents,
    /// Accounts with a row, for a table with rare events.
    accounts: Vec<Uuid>,
    /// Number of rows that the log expects.
    expected_count: u64,
    /// Number of rows in the table.
    found_count: u64,
    /// Wrong rows, in the order of account and row.
    wrong: RowKeys,
    /// Defect of each wrong row.
    kinds: Vec<FindingKind>,
}

impl<'a> Comparison<'a> {
    /// Compares the rows.
    ///
    /// # Errors
    /// Returns an error if a database fails.
    pub(super) async fn make(
        snapshot: &'a mut ShardSnapshot,
        table: &'static ReadTable,
        exceptions: &'a Exceptions,
        events: &'a ComparedEvents,
    ) -> anyhow::Result<Self> {
        let accounts = match events {
            ComparedEvents::Bucket(_) => Vec::new(),
            ComparedEvents::Rare(_) => accounts_in(snapshot, table).await?,
        };
        let mut comparison = Self {
            snapshot,
            table,
            exceptions,
            events,
            accounts,
            expected_count: 0,
            found_count: 0,
            wrong: RowKeys::default(),
            kinds: Vec::new(),
        };
        let compared = comparison.compare().await;
        compared
            .with_context(|| format!("cannot compare the table `{}` with the log", table.name))?;
        Ok(comparison)
    }

    async fn compare(&mut self) -> sqlx::Result<()> {
        let statement = sqlx::query_as(AssertSqlSafe(statements::expected(self.table)));
        let expected: ExpectedRow = self.bind(statement).fetch_one(&self.snapshot.log).await?;
        self.expected_count = expected.hashes.iter().flatten().count() as u64;
        let keys = RowKeys {
            account_ids: expected.account_ids,
            row_ids: expected.row_ids,
            rests: expected.rests,
        };
        let statement = sqlx::query_as(AssertSqlSafe(statements::compare(self.table)));
        let statement = keys.bind(statement.bind(self.snapshot.target.generation));
        let compared: ComparedRow = statement
            .bind(expected.hashes.clone())
            .fetch_one(&mut *self.snapshot.tx)
            .await?;
        self.found_count = compared.found_count.unsigned_abs();
        let mut wrong = Vec::with_capacity(compared.wrong.len());
        for (nth, is_found) in compared.wrong.into_iter().zip(compared.are_found) {
            let index =
                usize::try_from(nth - 1).map_err(|error| sqlx::Error::Decode(error.into()))?;
            let kind = match (expected.hashes[index], is_found) {
                (Some(_), true) => FindingKind::Different,
                (Some(_), false) => FindingKind::Missing,
                (None, _) => FindingKind::Orphan,
            };
            wrong.push((index, kind));
        }
        wrong.sort_by_key(|(index, _)| (keys.account_ids[*index], keys.row_ids[*index]));
        let indexes: Vec<usize> = wrong.iter().map(|(index, _)| *index).collect();
        self.wrong = keys.at(&indexes);
        self.kinds = wrong.into_iter().map(|(_, kind)| kind).collect();
        Ok(())
    }

    /// Returns the number of wrong rows.
    pub(super) fn wrong_count(&self) -> u64 {
        self.kinds.len() as u64
    }

    /// Adds the result to the report; the events are of the bucket.
    ///
    /// # Errors
    /// Returns an error if a database fails.
    pub(super) async fn report(
        mut self,
        bucket: LogBucket,
        report: &mut VerificationReport,
    ) -> anyhow::Result<()> {
        let (table, shard) = (self.table, self.snapshot.shard);
        report.rows_expected += self.expected_count;
        // The rows of other tables are counted page by page.
        if table.explanation.is_none() {
            report.rows_found += self.found_count;
        }
        let named = self.named().await;
        let named = named
            .with_context(|| format!("cannot name wrong rows of the table `{}`", table.name))?;
        let named = named
            .iter()
            .map(|row| VerifyFinding::of(row, table, Some(shard), Some(bucket)));
        let place = FindingPlace::Shard {
            table,
            shard,
            bucket,
        };
        report.findings.add(place, self.wrong_count(), named);
        Ok(())
    }

    /// Returns the first wrong rows, with the names of the columns that differ.
    async fn named(&mut self) -> sqlx::Result<Vec<FoundRow>> {
        let count = self.kinds.len().min(NAMED_MAX);
        let mut rows: Vec<FoundRow> = (0..count)
            .map(|index| FoundRow {
                kind: self.kinds[index],
                account_id: self.wrong.account_ids[index],
                row_id: self.wrong.row_ids[index],
                columns: String::new(),
            })
            .collect();
        let is_different = |index: &usize| self.kinds[*index] == FindingKind::Different;
        let different: Vec<usize> = (0..count).filter(is_different).collect();
        if different.is_empty() || self.table.values.is_empty() {
            return Ok(rows);
        }
        let keys = self.wrong.at(&different);
        let statement = sqlx::query_as(AssertSqlSafe(statements::expected_values(self.table)));
        let statement = keys.bind(self.bind(statement));
        let expected: Vec<ValuesRow> = statement.fetch_all(&self.snapshot.log).await?;
        let statement = sqlx::query_as(AssertSqlSafe(statements::values(self.table)));
        let statement = keys.bind(statement.bind(self.snapshot.target.generation));
        let found: Vec<ValuesRow> = statement.fetch_all(&mut *self.snapshot.tx).await?;
        for expected in &expected {
            let found = found.iter().find(|found| found.nth == expected.nth);
            let index = usize::try_from(expected.nth - 1).ok();
            let index = index.and_then(|index| different.get(index));
            if let (Some(found), Some(index)) = (found, index) {
                rows[*index].columns = differing(self.table.values, expected, found);
            }
        }
        Ok(rows)
    }

    /// Returns the first `rows_max` wrong rows with up to `events_max` events, or one row with more
    /// events.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub(super) async fn events_of_wrong_rows(
        &self,
        rows_max: usize,
        events_max: i64,
    ) -> sqlx::Result<Vec<WrongRow>> {
        let first: Vec<usize> = (0..self.kinds.len().min(rows_max)).collect();
        let statement = sqlx::query_as(AssertSqlSafe(statements::events_of_rows(self.table)));
        let statement = self.wrong.at(&first).bind(self.bind(statement));
        let statement = statement.bind(events_max);
        statement.fetch_all(&self.snapshot.log).await
    }

    /// Binds the parameters of a statement on the log.
    fn bind<'q, Row>(&self, statement: Statement<'q, Row>) -> Statement<'q, Row> {
        let statement = self
            .exceptions
            .bind(statement)
            .bind(self.snapshot.shard.number())
            .bind(self.snapshot.checkpoint);
        match self.events {
            ComparedEvents::Bucket(bucket) => statement.bind(bucket.first).bind(bucket.last),
            ComparedEvents::Rare(positions) => statement
                .bind(positions.clone())
                .bind(self.accounts.clone()),
        }
    }
}

/// Returns the accounts that have a row in a table with rare events.
async fn accounts_in(snapshot: &mut ShardSnapshot, table: &ReadTable) -> anyhow::Result<Vec<Uuid>> {
    let name = table.name;
    let statement = format!("SELECT account_id FROM read_model.{name} WHERE generation = $1");
    let accounts = sqlx::query_scalar(AssertSqlSafe(statement))
        .bind(snapshot.target.generation)
        .fetch_all(&mut *snapshot.tx)
        .await;
    accounts.with_context(|| format!("cannot read the table `{name}`"))
}

/// Returns the names of the columns whose hashes differ, separated by commas.
fn differing(columns: &[Column], expected: &ValuesRow, found: &ValuesRow) -> String {
    let hashes = expected.hashes.iter().zip(&found.hashes);
    let differing = columns.iter().zip(hashes);
    let differing = differing.filter(|(_, (expected, found))| expected != found);
    let names: Vec<_> = differing.map(|(column, _)| column.name).collect();
    names.join(", ")
}
