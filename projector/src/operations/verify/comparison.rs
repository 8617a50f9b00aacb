//! Compares the rows of a table with the rows that the log expects: counts, and the first wrong rows
//! by name.
//!
//! The log says the keys and hashes of the expected rows; the table is compared with them. Both are
//! asked again only about wrong rows.

use anyhow::Context as _;
use linkledger_core::{id::AccountId, shard::Position};
use sqlx::{AssertSqlSafe, FromRow};
use uuid::Uuid;

use super::{
    VerificationReport,
    exceptions::{Exceptions, Statement},
    findings::{
        ComparedColumn, ComparedRow, FindingKind, FindingPlace, NAMED_MAX, VerifyFinding, shown_id,
    },
    row_keys::RowKeys,
    snapshot::{LogBucket, ShardSnapshot},
    statements,
};
use crate::read_models::description::{AT_POSITIONS, IN_BUCKET, ReadTable};

/// Events whose rows are compared.
#[derive(Debug, Clone)]
pub(super) enum ComparedEvents {
    /// All events of a bucket.
    Bucket(LogBucket),
    /// Events of one account, at these positions.
    Positions(AccountId, Vec<Position>),
}

impl ComparedEvents {
    /// Returns the events in a FROM clause of a statement on the log.
    const fn source(&self) -> &'static str {
        match self {
            Self::Bucket(_) => IN_BUCKET,
            Self::Positions(..) => AT_POSITIONS,
        }
    }
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
struct DefectsRow {
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
    values: Vec<Option<String>>,
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
    /// Number of rows that the log expects.
    expected_count: u64,
    /// Number of rows in the table.
    found_count: u64,
    /// Keys of all compared rows.
    keys: RowKeys,
    /// Wrong rows, in the order of account and row: index in `keys`, and defect.
    wrong: Vec<(usize, FindingKind)>,
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
        let mut comparison = Self {
            snapshot,
            table,
            exceptions,
            events,
            expected_count: 0,
            found_count: 0,
            keys: RowKeys::default(),
            wrong: Vec::new(),
        };
        let compared = comparison.compare().await;
        compared
            .with_context(|| format!("cannot compare the table `{}` with the log", table.name))?;
        Ok(comparison)
    }

    async fn compare(&mut self) -> sqlx::Result<()> {
        let statement = statements::expected(self.table, self.events.source());
        let statement = sqlx::query_as(AssertSqlSafe(statement));
        let expected: ExpectedRow = self.bind(statement).fetch_one(&self.snapshot.log).await?;
        self.expected_count = expected.hashes.iter().flatten().count() as u64;
        let keys = RowKeys {
            account_ids: expected.account_ids,
            row_ids: expected.row_ids,
            rests: expected.rests,
        };
        let statement = sqlx::query_as(AssertSqlSafe(statements::compare(self.table)));
        let statement = keys.bind(statement.bind(self.snapshot.target.generation));
        let compared: DefectsRow = statement
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
        self.keys = keys;
        self.wrong = wrong;
        Ok(())
    }

    /// Returns the number of wrong rows.
    pub(super) fn wrong_count(&self) -> u64 {
        self.wrong.len() as u64
    }

    /// Adds the result to the report.
    ///
    /// # Errors
    /// Returns an error if a database fails.
    pub(super) async fn report(
        mut self,
        place: FindingPlace,
        report: &mut VerificationReport,
    ) -> anyhow::Result<()> {
        report.rows_expected += self.expected_count;
        // The rows of buckets are counted page by page.
        if matches!(self.events, ComparedEvents::Positions(..)) {
            report.rows_found += self.found_count;
        }
        let named = self.named().await?;
        report.findings.add(place, self.wrong_count(), named);
        Ok(())
    }

    /// Returns the first wrong rows, with the columns that differ.
    async fn named(&mut self) -> anyhow::Result<Vec<VerifyFinding>> {
        let first: Vec<(usize, FindingKind)> = self.wrong.iter().copied().take(NAMED_MAX).collect();
        let indexes: Vec<usize> = first.iter().map(|(index, _)| *index).collect();
        let rows = self.compared_rows(&indexes).await?;
        let bucket = match self.events {
            ComparedEvents::Bucket(bucket) => Some(*bucket),
            ComparedEvents::Positions(..) => None,
        };
        let named = first.into_iter().zip(rows);
        let named = named.map(|((index, kind), mut row)| {
            row.columns
                .retain(|column| kind == FindingKind::Different && column.log != column.row);
            VerifyFinding {
                table: row.table,
                shard: Some(self.snapshot.shard.number()),
                bucket,
                account_id: AccountId::from_uuid(self.keys.account_ids[index]),
                row: shown_id(self.table, self.keys.row_ids[index]),
                kind,
                columns: row.columns,
            }
        });
        Ok(named.collect())
    }

    /// Returns all compared rows, as the log expects them and as the table has them.
    ///
    /// # Errors
    /// Returns an error if a database fails.
    pub(super) async fn all_rows(&mut self) -> anyhow::Result<Vec<ComparedRow>> {
        let all: Vec<usize> = (0..self.keys.account_ids.len()).collect();
        self.compared_rows(&all).await
    }

    /// Returns the rows with the keys at these indexes.
    async fn compared_rows(&mut self, indexes: &[usize]) -> anyhow::Result<Vec<ComparedRow>> {
        if indexes.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.read_rows(&self.keys.at(indexes)).await;
        rows.with_context(|| format!("cannot read rows of the table `{}`", self.table.name))
    }

    async fn read_rows(&mut self, keys: &RowKeys) -> sqlx::Result<Vec<ComparedRow>> {
        let statement = statements::expected_values(self.table, self.events.source());
        let statement = keys.bind(self.bind(sqlx::query_as(AssertSqlSafe(statement))));
        let expected: Vec<ValuesRow> = statement.fetch_all(&self.snapshot.log).await?;
        let statement = sqlx::query_as(AssertSqlSafe(statements::values(self.table)));
        let statement = keys.bind(statement.bind(self.snapshot.target.generation));
        let found: Vec<ValuesRow> = statement.fetch_all(&mut *self.snapshot.tx).await?;
        let nth_of = |rows: &[ValuesRow], nth: usize| {
            let mut rows = rows.iter();
            let row = rows.find(|row| usize::try_from(row.nth - 1) == Ok(nth));
            row.map(|row| row.values.clone())
        };
        let value = |row: &Option<Vec<Option<String>>>, index: usize| row.as_ref()?[index].clone();
        let rows = (0..keys.account_ids.len()).map(|nth| {
            let (log, row) = (nth_of(&expected, nth), nth_of(&found, nth));
            let columns = self.table.columns().enumerate();
            let columns = columns.map(|(index, column)| ComparedColumn {
                name: column.name,
                log: value(&log, index),
                row: value(&row, index),
            });
            ComparedRow {
                table: self.table.name,
                columns: columns.collect(),
                is_expected: log.is_some(),
                is_found: row.is_some(),
            }
        });
        Ok(rows.collect())
    }

    /// Returns the first `rows_max` wrong rows, with their events.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub(super) async fn events_of_wrong_rows(
        &self,
        rows_max: usize,
    ) -> sqlx::Result<Vec<WrongRow>> {
        let first = self.wrong.iter().take(rows_max).map(|(index, _)| *index);
        let keys = self.keys.at(&first.collect::<Vec<usize>>());
        let statement = statements::events_of_rows(self.table, self.events.source());
        let statement = keys.bind(self.bind(sqlx::query_as(AssertSqlSafe(statement))));
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
            ComparedEvents::Positions(account_id, positions) => {
                statement.bind(positions.clone()).bind(account_id.uuid())
            }
        }
    }
}
