//! The statements of verification and repair, assembled from the description of a read table.
//!
//! The statements find rows by key, whatever the planner knows of the tables: each subquery that looks
//! up one row is lateral with a limit, so that the planner cannot turn the subquery into a scan.

use crate::read_models::description::{
    Column, NOT_SKIPPED, ReadTable, RowId, applied_up_to, first_waiting_version,
};

/// Returns the statement that compares the rows of a bucket, or of a shard for a table with rare
/// events: counts, and the first wrong rows by name.
pub fn compare(table: &ReadTable) -> String {
    let compared = compared(table);
    format!(
        "WITH {compared}, summary AS (
            SELECT count(expected) AS expected_count, count(found) AS found_count,
                   count(*) FILTER (WHERE expected IS DISTINCT FROM found) AS mismatches
            FROM compared
        ), named AS (
            SELECT * FROM compared WHERE expected IS DISTINCT FROM found
            ORDER BY account_id, row_id
            LIMIT 100
        )
        SELECT summary.*, named.account_id, named.row_id, named.columns,
               named.expected IS NOT NULL AS is_expected, named.found IS NOT NULL AS is_found
        FROM summary
        LEFT JOIN named ON true"
    )
}

/// Returns the statement that names up to `$7` wrong rows with up to `$8` events (`$6` and `$7` for a
/// table with rare events): account, key, the positions of the events from which the projection writes
/// the row, and the number of all wrong rows. A row with more events is named alone.
pub fn wrong_rows(table: &ReadTable) -> String {
    let compared = compared(table);
    let key = key_as_text(table, "wrong");
    let events_of_row = (table.events_of_row)();
    let (rows_max, events_max) = if table.rare_events.is_empty() {
        ("$7", "$8")
    } else {
        ("$6", "$7")
    };
    let events_of_row_max = table.events_of_row_max;
    let first_waiting_version = first_waiting_version("owner.account_id");
    format!(
        "WITH {compared}, numbered AS (
            SELECT *, row_number() OVER rows_up_to AS number, count(*) OVER () AS wrong_count,
                   sum({events_of_row_max}) OVER rows_up_to AS events_up_to
            FROM compared WHERE expected IS DISTINCT FROM found
            WINDOW rows_up_to AS (ORDER BY account_id, row_id ROWS UNBOUNDED PRECEDING)
        ), wrong AS MATERIALIZED (
            SELECT * FROM numbered
            WHERE number = 1 OR number <= {rows_max}::bigint AND events_up_to <= {events_max}::bigint
        ), first_waiting AS MATERIALIZED (
            SELECT account_id, {first_waiting_version} AS version
            FROM (SELECT DISTINCT account_id FROM wrong) AS owner
        )
        SELECT wrong.account_id, {key} AS key, ARRAY({events_of_row}) AS positions,
               wrong.wrong_count
        FROM wrong
        JOIN first_waiting ON first_waiting.account_id = wrong.account_id"
    )
}

/// Returns common table expressions. The last one, `compared`, has for each key of `expected` the hash
/// of the expected row and of the row in the table (NULL for no row) and the names of the columns that
/// differ. Rows with other keys are orphans, which [`page`] finds.
fn compared(table: &ReadTable) -> String {
    let name = table.name;
    let expected = (table.expected)();
    let hash = |alias| {
        let columns = listed(table.columns(), |name| format!("{alias}.{name}"));
        format!("hash_record_extended(ROW({columns}), 0)")
    };
    let (expected_hash, found_hash) = (hash("e"), hash("r"));
    let same_key = same_key(table, "e");
    let different = listed(table.values, |name| {
        format!("CASE WHEN r.{name} IS DISTINCT FROM e.{name} THEN '{name}' END")
    });
    let columns = if different.is_empty() {
        "''".to_owned()
    } else {
        format!("concat_ws(', ', {different})")
    };
    format!(
        "{expected}, compared AS MATERIALIZED (
            SELECT e.*, CASE WHEN e.is_expected THEN {expected_hash} END AS expected,
                   CASE WHEN r.generation IS NOT NULL THEN {found_hash} END AS found,
                   {columns} AS columns
            FROM expected AS e
            LEFT JOIN read_model.{name} AS r ON r.generation = $2 AND {same_key}
        )"
    )
}

/// Returns the statement of a page of the table, in the order of its key: up to `$3` rows, after the
/// key `$4` if `is_continued` is set, with the orphans among the rows.
pub fn page(table: &ReadTable, is_continued: bool) -> Option<String> {
    let explanation = table.explanation.as_ref()?;
    let name = table.name;
    let row_id = match table.row_id {
        RowId::Link(column) | RowId::Entry(column) => column,
        RowId::Account => "account_id",
    };
    let key = listed(table.key, str::to_owned);
    let mut columns: Vec<&str> = table.key.iter().map(|it| it.name).collect();
    for column in [row_id, "account_id"] {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    let columns = columns.join(", ");
    let after = if is_continued {
        let typed = table.key.iter().enumerate();
        let typed =
            typed.map(|(index, it)| format!("($4::text[])[{}]::{}", index + 1, it.sql_type));
        format!("AND ({key}) > ({})", typed.collect::<Vec<_>>().join(", "))
    } else {
        String::new()
    };
    let backwards = listed(table.key, |name| format!("{name} DESC"));
    let (last_key, orphan_key) = (key_as_text(table, "last"), key_as_text(table, "orphan"));
    let (owner, event) = (explanation.owner, explanation.event);
    let applied_up_to = applied_up_to("c.position");
    Some(format!(
        "WITH page AS MATERIALIZED (
            SELECT {columns} FROM read_model.{name}
            WHERE generation = $2 {after}
            ORDER BY {key}
            LIMIT $3::bigint
        ), orphans AS MATERIALIZED (
            SELECT page.*, owner.shard
            FROM page
            LEFT JOIN {owner}
            LEFT JOIN read_model.checkpoints AS c
                ON c.projection = $1 AND c.generation = $2 AND c.shard = owner.shard
            LEFT JOIN LATERAL (
                SELECT e.position, e.account_id FROM event_store.events AS e
                WHERE e.shard = owner.shard AND {event} AND {NOT_SKIPPED}
                ORDER BY e.version
                LIMIT 1
            ) AS e ON true
            WHERE e.position IS NULL OR e.position > {applied_up_to}
        ), last AS (
            SELECT * FROM page ORDER BY {backwards} LIMIT 1
        )
        SELECT (SELECT count(*) FROM page) AS row_count, {last_key} AS last_key,
               orphan.account_id, orphan.{row_id} AS row_id, orphan.shard,
               CASE WHEN orphan.account_id IS NOT NULL THEN {orphan_key} END AS key
        FROM last
        LEFT JOIN orphans AS orphan ON true"
    ))
}

/// Returns the statement that deletes rows by key: `$1` is the generation, each further parameter an
/// array of one column of the key, as text.
pub fn delete(table: &ReadTable) -> String {
    let name = table.name;
    let key = listed(table.key, str::to_owned);
    let typed = table.key.iter().enumerate();
    let typed = typed.map(|(index, it)| format!("${}::text[]::{}[]", index + 2, it.sql_type));
    let arrays = typed.collect::<Vec<_>>().join(", ");
    let same_key = same_key(table, "gone");
    format!(
        "DELETE FROM read_model.{name} AS r
         USING unnest({arrays}) AS gone ({key})
         WHERE r.generation = $1 AND {same_key}"
    )
}

/// Returns the condition that a row `r` of the table has the key of `other`.
fn same_key(table: &ReadTable, other: &str) -> String {
    let keys = |alias| listed(table.key, |name| format!("{alias}.{name}"));
    format!("({}) = ({})", keys("r"), keys(other))
}

fn key_as_text(table: &ReadTable, alias: &str) -> String {
    let key = listed(table.key, |name| format!("{alias}.{name}::text"));
    format!("ARRAY[{key}]")
}

/// Returns a list of one expression for each column.
fn listed<'a>(
    columns: impl IntoIterator<Item = &'a Column>,
    expression: impl Fn(&str) -> String,
) -> String {
    let expressions = columns.into_iter().map(|column| expression(column.name));
    expressions.collect::<Vec<_>>().join(", ")
}
