//! Descriptions of the read tables: name, columns, and the SQL of what the log expects in a table.
//!
//! Verification and repair assemble their statements from these descriptions
//! (`docs/adr/0013-statements-from-descriptions.md`), so that a column stands in one place. The SQL
//! shares nothing with the projections: a defect of a projection is found because both disagree.
//!
//! A row is determined by one event of a stream, mostly the last one. For an aggregate, keep one row for
//! each link, and count the rows when they are read.

/// Column of a read table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Name of the column.
    pub name: &'static str,
    /// Type of the column, as Postgres prints the type.
    pub sql_type: &'static str,
}

impl Column {
    pub(crate) const fn new(name: &'static str, sql_type: &'static str) -> Self {
        Self { name, sql_type }
    }
}

/// Id by which people know a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowId {
    /// Id of a link (`lnk_…`), in this column.
    Link(&'static str),
    /// Id of an entry (`ent_…`), in this column.
    Entry(&'static str),
    /// The account has one row, which needs no further id.
    Account,
}

/// Entry of the redirect caches that a changed row invalidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheEntry {
    /// None: no cache holds the row.
    None,
    /// The slug, which is the key of the row.
    Slug,
    /// All slugs of the account.
    Account,
}

/// Description of a read table.
///
/// The SQL on the log names no read table, because the log may be on another server. Its parameters: `$1`
/// to `$5` are those of `EXCEPTIONS`, `$6` is the shard, `$7` the position of the shard's checkpoint; `$8`
/// and `$9` say which events are compared, see [`IN_BUCKET`] and [`AT_POSITIONS`].
#[derive(Debug)]
pub struct ReadTable {
    /// Name of the table in the schema `read_model`.
    pub name: &'static str,
    /// Columns of the primary key after `generation`.
    pub key: &'static [Column],
    /// All other columns.
    pub values: &'static [Column],
    /// Id by which people know a row.
    pub row_id: RowId,
    /// Common table expressions that end with `expected`: `account_id`, `row_id`, `is_expected`, the
    /// columns of the table, and whatever `events_of_row` needs. A row is compared in the bucket of
    /// the last event that determines the row. The parameter is [`IN_BUCKET`] or [`AT_POSITIONS`].
    pub expected: fn(&str) -> String,
    /// Query of the positions of the events, one or two, that the projection needs to write the row `wrong`;
    /// `first_waiting.version` is the first waiting version in the stream of the row's account.
    pub events_of_row: fn() -> String,
    /// Event that explains a row.
    pub explanation: Explanation,
    /// Cached data that a change of the row invalidates.
    pub invalidates: CacheEntry,
}

/// An event that explains a row of the table, looked up by the row's key. A row without such an event is
/// an orphan.
#[derive(Debug)]
pub struct Explanation {
    /// Join with a table of the log that finds the shard of a row `page`, as `owner.shard`.
    pub owner: &'static str,
    /// Condition on the event `e` of that shard. `$6` has the checkpoints by shard.
    pub event: fn() -> String,
}

/// [`Explanation::owner`] of a row that has the account in its key.
pub(crate) const ACCOUNT_OF_KEY: &str =
    "event_store.accounts AS owner ON owner.account_id = page.account_id";

impl ReadTable {
    /// Returns all columns but `generation`, the key first.
    pub fn columns(&self) -> impl Iterator<Item = &'static Column> {
        self.key.iter().chain(self.values)
    }
}

/// Compared events `e` in a FROM clause: those of a bucket, whose first and last position are `$8` and `$9`.
pub const IN_BUCKET: &str = "(
    SELECT * FROM event_store.events WHERE shard = $6 AND position BETWEEN $8 AND $9
) AS e";

/// Compared events `e` in a FROM clause: those of the account `$9` at the positions `$8`. Looked up one by one:
/// a condition on all positions could be planned as a scan up to the checkpoint.
pub const AT_POSITIONS: &str = "unnest($8::bigint[]) AS place (position)
CROSS JOIN LATERAL (
    SELECT * FROM event_store.events
    WHERE shard = $6 AND position = place.position AND account_id = $9::uuid
    LIMIT 1
) AS e";

/// Common table expressions of the events up to the checkpoint whose effects the read tables lack: skipped
/// events, and the first waiting event of each parked account. `$1` to `$5` are their columns.
pub(crate) const EXCEPTIONS: &str = "
    skipped (shard, position, event_id) AS MATERIALIZED (
        SELECT * FROM unnest($1::smallint[], $2::bigint[], $3::uuid[])
    ), waiting (position_of) AS MATERIALIZED (
        -- One object with sorted keys: hash joins are off, and a nested loop would compare each event
        -- with each parked account.
        SELECT jsonb_object(
            $4::uuid[]::text[], $5::bigint[]::text[]
        )
    )";

/// Condition on the event `e`: no operator has skipped the event.
pub(crate) const NOT_SKIPPED: &str = "NOT EXISTS (
    SELECT FROM skipped AS s
    WHERE s.shard = e.shard AND s.position = e.position AND s.event_id = e.event_id
)";

/// Join of an event `e` with the first waiting event of its account, for [`APPLIED_UP_TO`].
pub(crate) const FIRST_WAITING: &str = "CROSS JOIN LATERAL (
    SELECT ((SELECT position_of FROM waiting) ->> e.account_id::text)::bigint AS position
) AS w";

/// Last position that is applied to the account of the event `e`: a parked account stands before its
/// first waiting event.
pub(crate) const APPLIED_UP_TO: &str = "least($7::bigint, w.position - 1)";

/// Returns the expression of the position of an account's first waiting event; NULL without one.
pub(crate) fn first_waiting_position(account_id: &str) -> String {
    format!("((SELECT position_of FROM waiting) ->> {account_id}::text)::bigint")
}

/// Returns the expression of the version of the first waiting event in the stream of a parked account,
/// or the largest version: a search for the last applied event passes over few waiting events.
pub(crate) fn first_waiting_version(account_id: &str) -> String {
    let first_waiting = first_waiting_position(account_id);
    format!(
        "coalesce((
            SELECT first.version FROM (SELECT {first_waiting} AS position) AS w
            CROSS JOIN LATERAL (
                SELECT version FROM event_store.events
                WHERE shard = $6 AND position BETWEEN w.position AND w.position + 1000
                  AND stream_id = {account_id}
                ORDER BY position
                LIMIT 1
            ) AS first
        ), 9223372036854775807)"
    )
}
