//! Compares the rows of a table with the rows that the log expects: counts, and the first wrong rows
//! by name.

use anyhow::Context as _;
use linkledger_core::shard::Position;
use sqlx::{AssertSqlSafe, FromRow, Postgres, postgres::PgArguments, query::QueryAs};
use uuid::Uuid;

use super::{
    findings::{FindingKind, FoundRow},
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

/// Result of a comparison.
#[derive(Debug, Default)]
pub(super) struct TableComparison {
    /// Number of rows that the log expects.
    pub(super) expected: u64,
    /// Number of rows found at the same keys.
    pub(super) found: u64,
    /// Number of wrong rows.
    pub(super) mismatches: u64,
    /// First wrong rows.
    pub(super) rows: Vec<FoundRow>,
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

/// Compares the rows of a table.
pub(super) async fn compare(
    snapshot: &mut ShardSnapshot,
    table: &ReadTable,
    events: &ComparedEvents,
) -> anyhow::Result<TableComparison> {
    let statement = sqlx::query_as(AssertSqlSafe(statements::compare(table)));
    let rows: Vec<ComparedRow> = bind(statement, snapshot, events)
        .fetch_all(&mut *snapshot.tx)
        .await
        .with_context(|| format!("cannot compare the table `{}` with the log", table.name))?;
    let mut comparison = TableComparison::default();
    for row in rows {
        comparison.expected = row.expected_count.unsigned_abs();
        comparison.found = row.found_count.unsigned_abs();
        comparison.mismatches = row.mismatches.unsigned_abs();
        let Some(account_id) = row.account_id else {
            continue;
        };
        let (kind, columns) = match (row.is_expected, row.is_found) {
            (true, true) => (FindingKind::Different, row.columns.unwrap_or_default()),
            (true, false) => (FindingKind::Missing, String::new()),
            (false, _) => (FindingKind::Orphan, String::new()),
        };
        comparison.rows.push(FoundRow {
            kind,
            account_id,
            row_id: row.row_id,
            columns,
        });
    }
    Ok(comparison)
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
