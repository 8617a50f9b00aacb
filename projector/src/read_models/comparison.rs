//! What the statements of all tables have in common: rows as the log wants them beside rows as they
//! are, by count and by a hash in which their order is nothing; where these differ, by name.

use serde::Serialize;
use uuid::Uuid;

/// What is wrong with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The log wants it and it is not there.
    Missing,
    /// It is there and says something else than the log.
    Different,
    /// It is there and the log does not want it.
    Superfluous,
    /// It does not add up: an entry with the one before it, or a balance with the last entry.
    Unbalanced,
}

impl Kind {
    /// The name in JSON, and for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Different => "different",
            Self::Superfluous => "superfluous",
            Self::Unbalanced => "unbalanced",
        }
    }
}

/// A row that is wrong as statements name it.
#[derive(Debug)]
pub(crate) struct FoundRow {
    pub(crate) kind: Kind,
    pub(crate) account_id: Uuid,
    pub(crate) row_id: Option<Uuid>,
    pub(crate) columns: String,
}

/// The rows of one table that belong to a bucket.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// How many the log wants.
    pub(crate) wanted: u64,
    /// How many of their keys there are.
    pub(crate) found: u64,
    /// How many are wrong.
    pub(crate) mismatches: u64,
    /// The first of those.
    pub(crate) rows: Vec<FoundRow>,
}

/// One of the rows that are wrong; just the summary if there is none.
pub(crate) struct ComparedRow {
    pub(crate) wanted_count: i64,
    pub(crate) found_count: i64,
    pub(crate) mismatches: i64,
    pub(crate) account_id: Option<Uuid>,
    pub(crate) row_id: Option<Uuid>,
    pub(crate) is_wanted: Option<bool>,
    pub(crate) is_found: Option<bool>,
    pub(crate) columns: Option<String>,
}

impl From<Vec<ComparedRow>> for Comparison {
    fn from(rows: Vec<ComparedRow>) -> Self {
        let mut comparison = Self::default();
        for row in rows {
            comparison.wanted = row.wanted_count.unsigned_abs();
            comparison.found = row.found_count.unsigned_abs();
            comparison.mismatches = row.mismatches.unsigned_abs();
            let kind = match (row.is_wanted, row.is_found) {
                (Some(true), Some(true)) => Kind::Different,
                (Some(true), Some(false)) => Kind::Missing,
                (Some(false), _) => Kind::Superfluous,
                (None, _) | (_, None) => continue,
            };
            if let Some(account_id) = row.account_id {
                comparison.rows.push(FoundRow {
                    kind,
                    account_id,
                    row_id: row.row_id,
                    columns: match kind {
                        Kind::Different => row.columns.unwrap_or_default(),
                        Kind::Missing | Kind::Superfluous | Kind::Unbalanced => String::new(),
                    },
                });
            }
        }
        comparison
    }
}

/// A statement whose parts end with `compared (account_id, row_id, wanted, found, columns)`: of
/// each key the hash of the row that the log wants, and of the one that is there; NULL for none.
/// `columns` names those that differ.
macro_rules! compare {
    ($($part:literal)+, $($argument:expr),+) => {
        sqlx::query_as!(
            crate::read_models::comparison::ComparedRow,
            "WITH " $(+ $part)+ + r#", summary AS (
                SELECT count(wanted) AS wanted_count, count(found) AS found_count,
                       (count(wanted), sum(wanted)) IS DISTINCT FROM (count(found), sum(found))
                           AS is_different,
                       count(*) FILTER (WHERE wanted IS DISTINCT FROM found) AS mismatches
                FROM compared
            ), named AS (
                SELECT * FROM compared WHERE wanted IS DISTINCT FROM found
                ORDER BY account_id, row_id
                LIMIT 100
            )
            SELECT s.wanted_count AS "wanted_count!", s.found_count AS "found_count!",
                   s.mismatches AS "mismatches!",
                   n.account_id AS "account_id?", n.row_id AS "row_id?",
                   n.wanted IS NOT NULL AS "is_wanted?", n.found IS NOT NULL AS "is_found?",
                   n.columns AS "columns?"
            FROM summary AS s
            LEFT JOIN named AS n ON s.is_different"#,
            $($argument),+
        )
    };
}

pub(crate) use compare;
