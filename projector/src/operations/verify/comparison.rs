//! Compares the rows of a table with the rows that the log expects: counts, and the first wrong rows
//! by name.

use anyhow::Context as _;
use linkledger_core::shard::Position;
use sqlx::{AssertSqlSafe, FromRow, Postgres, postgres::PgArguments, query::QueryAs};
use uuid::Uuid;

use super::{
    VerificationReport,
    findings::{Finding, FindingKind, FindingPlace, FoundRow},
    snapshot::{LogBucket, ShardSnapshot},
    statements,
};
use crate::read_models::description::ReadTable;

/// Events whose rows are compared.
#[derive(Debug, Clone)]
pub(super) enum ComparedEvents {
    /// All events of a bucket.
    Bucket(LogBucket),
    /// The rare events of a table, by their positions in the whole shard.
    Rare(Vec<Position>),
}

/// Row of [`statements::compare`]: counts, and one of the wrong rows if there are any.
#[derive(FromRow)]
struct ComparedRow {
    expected_count: i64,
    found_count: i64,
    mismatches: i64,
    account_id: Option<Uuid>,
    row_id: Option<Uuid>,
    columns: Option<String>,
    is_expected: bool,
    is_found: bool,
}

/// Row of [`statements::wrong_rows`].
#[derive(Debug, FromRow)]
pub(super) struct WrongRow {
    pub(super) account_id: Uuid,
    /// Columns of the key, as text.
    pub(super) key: Vec<String>,
    /// Positions of the events from which the projection writes the row; empty for an orphan.
    pub(super) positions: Vec<Position>,
    /// Number of all wrong rows, also of those beyond the limits.
    pub(super) wrong_count: i64,
}

/// Compares the rows of a table that the events of a bucket determine, and adds the result to the
/// report.
pub(super) async fn compare(
    snapshot: &mut ShardSnapshot,
    table: &'static ReadTable,
    (bucket, events): (LogBucket, &ComparedEvents),
    report: &mut VerificationReport,
) -> anyhow::Result<()> {
    let statement = sqlx::query_as(AssertSqlSafe(statements::compare(table)));
    let rows: Vec<ComparedRow> = bind(statement, snapshot, events)
        .fetch_all(&mut *snapshot.tx)
        .await
        .with_context(|| format!("cannot compare the table `{}` with the log", table.name))?;
    let Some(counts) = rows.first() else {
        return Ok(());
    };
    report.rows_expected += counts.expected_count.unsigned_abs();
    // The rows of other tables are counted page by page.
    if table.explanation.is_none() {
        report.rows_found += counts.found_count.unsigned_abs();
    }
    let mismatches = counts.mismatches.unsigned_abs();
    let shard = snapshot.shard;
    let found = rows.into_iter().filter_map(ComparedRow::wrong);
    let named = found.map(|row| Finding::of(&row, table, Some(shard), Some(bucket)));
    let place = FindingPlace::Shard {
        table,
        shard,
        bucket,
    };
    report.findings.add(place, mismatches, named);
    Ok(())
}

impl ComparedRow {
    /// Returns the wrong row, if there is one.
    fn wrong(self) -> Option<FoundRow> {
        let (kind, columns) = match (self.is_expected, self.is_found) {
            (true, true) => (FindingKind::Different, self.columns.unwrap_or_default()),
            (true, false) => (FindingKind::Missing, String::new()),
            (false, _) => (FindingKind::Orphan, String::new()),
        };
        Some(FoundRow {
            kind,
            account_id: self.account_id?,
            row_id: self.row_id,
            columns,
        })
    }
}

/// Returns up to `rows_max` wrong rows of a table with up to `events_max` events, or one row with more
/// events.
pub(super) async fn wrong_rows(
    snapshot: &mut ShardSnapshot,
    table: &ReadTable,
    events: &ComparedEvents,
    rows_max: i64,
    events_max: i64,
) -> sqlx::Result<Vec<WrongRow>> {
    let statement = sqlx::query_as(AssertSqlSafe(statements::wrong_rows(table)));
    bind(statement, snapshot, events)
        .bind(rows_max)
        .bind(events_max)
        .fetch_all(&mut *snapshot.tx)
        .await
}

fn bind<'q, Row>(
    statement: QueryAs<'q, Postgres, Row, PgArguments>,
    snapshot: &ShardSnapshot,
    events: &ComparedEvents,
) -> QueryAs<'q, Postgres, Row, PgArguments> {
    let statement = statement
        .bind(snapshot.target.projection.name())
        .bind(snapshot.target.generation)
        .bind(snapshot.shard.number())
        .bind(snapshot.checkpoint);
    match events {
        ComparedEvents::Bucket(bucket) => statement.bind(bucket.first).bind(bucket.last),
        ComparedEvents::Rare(positions) => statement.bind(positions.clone()),
    }
}
