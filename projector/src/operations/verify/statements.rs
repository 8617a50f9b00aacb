//! The statements of verification and repair, assembled from the description of a read table. Each
//! statement names one schema: log and read tables may be on two servers.
//!
//! The statements find rows by key, whatever the planner knows of the tables: each subquery that looks
//! up one row is lateral with a limit, so that the planner cannot turn the subquery into a scan.

use crate::read_models::description::{
    APPLIED_UP_TO, Column, EXCEPTIONS, FIRST_WAITING, NOT_SKIPPED, ReadTable, RowId,
    first_waiting_version,
};

/// Columns of [`super::row_keys::RowKeys`]: account, row, and the rest of the key as text of an array.
const KEY_COLUMNS: &str = "account_id, row_id, rest";

/// Returns the statement on the log of the rows that the compared events determine: keys, and for each
/// row its hash, or NULL if the table must not have the row.
pub fn expected(table: &ReadTable, events: &str) -> String {
    let expected = (table.expected)(events);
    let (rest, hash) = (rest(table, "e"), hash(table, "e"));
    format!(
        "WITH {EXCEPTIONS}, {expected}
         SELECT coalesce(array_agg(e.account_id), '{{}}') AS account_ids,
                coalesce(array_agg(e.row_id), '{{}}') AS row_ids,
                coalesce(array_agg({rest}), '{{}}') AS rests,
                coalesce(array_agg(CASE WHEN e.is_expected THEN {hash} END), '{{}}') AS hashes
         FROM expected AS e"
    )
}

/// Returns the statement on the table that compares its rows with the hashes `$5` of the keys `$2` to
/// `$4`: the number of rows, and which of the keys have a wrong row or a wrong lack of a row.
pub fn compare(table: &ReadTable) -> String {
    let name = table.name;
    let (hash, same_key) = (hash(table, "r"), same_key(table));
    format!(
        "WITH compared AS MATERIALIZED (
            SELECT k.nth, k.expected, CASE WHEN r.generation IS NOT NULL THEN {hash} END AS found
            FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::bigint[]) WITH ORDINALITY
                AS k ({KEY_COLUMNS}, expected, nth)
            LEFT JOIN LATERAL (
                SELECT * FROM read_model.{name} AS r WHERE r.generation = $1 AND {same_key} LIMIT 1
            ) AS r ON true
        )
        SELECT count(found) AS found_count,
               coalesce(array_agg(nth) FILTER (WHERE expected IS DISTINCT FROM found), '{{}}')
                   AS wrong,
               coalesce(array_agg(found IS NOT NULL)
                            FILTER (WHERE expected IS DISTINCT FROM found), '{{}}') AS are_found
        FROM compared"
    )
}

/// Returns the statement on the log of the columns as text, for the rows with the keys `$10` to `$12`.
pub fn expected_values(table: &ReadTable, events: &str) -> String {
    let expected = (table.expected)(events);
    let (values, of_key) = (as_text(table.columns(), "e"), of_key(table));
    format!(
        "WITH {EXCEPTIONS}, {expected}
         SELECT k.nth, {values} AS values
         FROM unnest($10::uuid[], $11::uuid[], $12::text[]) WITH ORDINALITY AS k ({KEY_COLUMNS}, nth)
         JOIN expected AS e ON e.is_expected AND {of_key}"
    )
}

/// Returns the statement on the table of the columns as text, for the rows with the keys `$2` to `$4`.
pub fn values(table: &ReadTable) -> String {
    let name = table.name;
    let (values, same_key) = (as_text(table.columns(), "r"), same_key(table));
    format!(
        "SELECT k.nth, {values} AS values
         FROM unnest($2::uuid[], $3::uuid[], $4::text[]) WITH ORDINALITY AS k ({KEY_COLUMNS}, nth)
         CROSS JOIN LATERAL (
            SELECT * FROM read_model.{name} AS r WHERE r.generation = $1 AND {same_key} LIMIT 1
         ) AS r"
    )
}

/// Returns the statement on the log that names, for the rows with the keys `$10` to `$12`, the positions of
/// the events from which the projection writes each row.
pub fn events_of_rows(table: &ReadTable, events: &str) -> String {
    let expected = (table.expected)(events);
    let of_key = of_key(table);
    let key = as_text(table.key, "wrong");
    let events_of_row = (table.events_of_row)();
    let first_waiting_version = first_waiting_version("owner.account_id");
    format!(
        "WITH {EXCEPTIONS}, {expected}, wrong AS MATERIALIZED (
            SELECT e.* FROM unnest($10::uuid[], $11::uuid[], $12::text[]) AS k ({KEY_COLUMNS})
            JOIN expected AS e ON {of_key}
        ), first_waiting AS MATERIALIZED (
            SELECT account_id, {first_waiting_version} AS version
            FROM (SELECT DISTINCT account_id FROM wrong) AS owner
        )
        SELECT wrong.account_id, {key} AS key, ARRAY({events_of_row}) AS positions
        FROM wrong
        JOIN first_waiting ON first_waiting.account_id = wrong.account_id"
    )
}

/// Returns the statement of a page of the table, in the order of its key: up to `$2` rows, after the
/// key `$3` if `is_continued` is set.
pub fn page(table: &ReadTable, is_continued: bool) -> String {
    let name = table.name;
    let row_id = match table.row_id {
        RowId::Link(column) | RowId::Entry(column) => format!("page.{column}"),
        RowId::Account => "NULL::uuid".to_owned(),
    };
    let key = listed(table.key, str::to_owned);
    let after = if is_continued {
        let typed = table.key.iter().enumerate();
        let typed =
            typed.map(|(index, it)| format!("($3::text[])[{}]::{}", index + 1, it.sql_type));
        format!("AND ({key}) > ({})", typed.collect::<Vec<_>>().join(", "))
    } else {
        String::new()
    };
    let backwards = listed(table.key, |name| format!("{name} DESC"));
    let (rest, last_key) = (rest(table, "page"), as_text(table.key, "last"));
    format!(
        "WITH page AS MATERIALIZED (
            SELECT * FROM read_model.{name}
            WHERE generation = $1 {after}
            ORDER BY {key}
            LIMIT $2::bigint
        )
        SELECT coalesce(array_agg(page.account_id), '{{}}') AS account_ids,
               coalesce(array_agg({row_id}), '{{}}') AS row_ids,
               coalesce(array_agg({rest}), '{{}}') AS rests,
               (
                   SELECT {last_key}
                   FROM (SELECT * FROM page ORDER BY {backwards} LIMIT 1) AS last
               ) AS last_key
        FROM page"
    )
}

/// Returns the statement on the log that finds the orphans among the rows with the keys `$7` to `$9`: rows
/// without an event that is applied. `$6` has the checkpoints by shard.
///
/// Also returns each row that an event of another account explains, with that account as `explained_by`:
/// the event may be an exception of that account.
pub fn orphans(table: &ReadTable) -> String {
    let (owner, event) = (table.explanation.owner, (table.explanation.event)());
    let rest = table.key.iter().filter(|it| is_rest(table, it)).enumerate();
    let rest = rest.map(|(index, column)| {
        let Column { name, sql_type } = column;
        format!(", (k.rest::text[])[{}]::{sql_type} AS {name}", index + 1)
    });
    let rest = rest.collect::<String>();
    let row_id = match table.row_id {
        RowId::Link(column) | RowId::Entry(column) => column,
        RowId::Account => "row_id",
    };
    let key = as_text(table.key, "page");
    // The checkpoint depends on the shard of the row.
    let applied_up_to = APPLIED_UP_TO.replace("$7::bigint", "($6::bigint[])[owner.shard + 1]");
    format!(
        "WITH {EXCEPTIONS}, page AS MATERIALIZED (
            SELECT k.nth, k.account_id, k.row_id AS {row_id} {rest}
            FROM unnest($7::uuid[], $8::uuid[], $9::text[]) WITH ORDINALITY
                AS k ({KEY_COLUMNS}, nth)
        )
        SELECT page.account_id, page.{row_id} AS row_id, owner.shard, {key} AS key,
               CASE WHEN e.position <= {applied_up_to} THEN e.account_id END AS explained_by
        FROM page
        LEFT JOIN {owner}
        LEFT JOIN LATERAL (
            SELECT e.position, e.account_id FROM event_store.events AS e
            WHERE e.shard = owner.shard AND {event} AND {NOT_SKIPPED}
            ORDER BY e.version
            LIMIT 1
        ) AS e ON true
        {FIRST_WAITING}
        WHERE e.position IS NULL OR e.position > {applied_up_to}
           OR e.account_id <> page.account_id
        ORDER BY page.nth"
    )
}

/// Returns the statement that deletes rows by key: `$1` is the generation, each further parameter an
/// array of one column of the key, as text.
pub fn delete(table: &ReadTable) -> String {
    let name = table.name;
    let key = listed(table.key, str::to_owned);
    let typed = table.key.iter().enumerate();
    let typed = typed.map(|(index, it)| format!("${}::text[]::{}[]", index + 2, it.sql_type));
    let arrays = typed.collect::<Vec<_>>().join(", ");
    let keys = |alias| listed(table.key, |name| format!("{alias}.{name}"));
    let (of_row, of_gone) = (keys("r"), keys("gone"));
    format!(
        "DELETE FROM read_model.{name} AS r
         USING unnest({arrays}) AS gone ({key})
         WHERE r.generation = $1 AND ({of_row}) = ({of_gone})"
    )
}

/// Returns true if neither the account nor the row's id holds this column of the key.
fn is_rest(table: &ReadTable, column: &Column) -> bool {
    let is_row_id =
        matches!(table.row_id, RowId::Link(name) | RowId::Entry(name) if name == column.name);
    column.name != "account_id" && !is_row_id
}

/// Returns the columns of the key that are neither the account nor the row's id, as text of an array.
fn rest(table: &ReadTable, alias: &str) -> String {
    let columns = table.key.iter().filter(|it| is_rest(table, it));
    let columns = listed(columns, |name| format!("{alias}.{name}::text"));
    format!("ARRAY[{columns}]::text[]::text")
}

/// Returns the condition that a row `r` of the table has the key `k`.
fn same_key(table: &ReadTable) -> String {
    let mut rests = 0;
    let conditions = table.key.iter().map(|column| {
        let Column { name, sql_type } = column;
        if *name == "account_id" {
            "r.account_id = k.account_id".to_owned()
        } else if is_rest(table, column) {
            rests += 1;
            format!("r.{name} = (k.rest::text[])[{rests}]::{sql_type}")
        } else {
            format!("r.{name} = k.row_id")
        }
    });
    conditions.collect::<Vec<_>>().join(" AND ")
}

/// Returns the condition that an expected row `e` has the key `k`.
fn of_key(table: &ReadTable) -> String {
    let rest = rest(table, "e");
    format!(
        "e.account_id = k.account_id AND e.row_id IS NOT DISTINCT FROM k.row_id AND {rest} = k.rest"
    )
}

/// Returns the hash of a row.
fn hash(table: &ReadTable, alias: &str) -> String {
    let columns = listed(table.columns(), |name| format!("{alias}.{name}"));
    format!("hash_record_extended(ROW({columns}), 0)")
}

/// Returns the columns of a row as an array of texts, the same in each session: `sqlx` sets time zone and
/// style of dates.
fn as_text<'a>(columns: impl IntoIterator<Item = &'a Column>, alias: &str) -> String {
    let texts = listed(columns, |name| format!("{alias}.{name}::text"));
    format!("ARRAY[{texts}]")
}

/// Returns a list of one expression for each column.
fn listed<'a>(
    columns: impl IntoIterator<Item = &'a Column>,
    expression: impl Fn(&str) -> String,
) -> String {
    let expressions = columns.into_iter().map(|column| expression(column.name));
    expressions.collect::<Vec<_>>().join(", ")
}
