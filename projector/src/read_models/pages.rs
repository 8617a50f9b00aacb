//! Pages of a read table, in the order of its key, with the rows that no event explains.

use uuid::Uuid;

/// Rows of a page: some tens of milliseconds of the database.
pub(crate) const PAGE_ROWS: i64 = 5_000;

/// A row of a table, by as much of it as the table's key has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Key {
    pub(crate) account_id: Uuid,
    /// The link or the entry.
    pub(crate) row_id: Uuid,
    pub(crate) version: i64,
    pub(crate) slug_folded: String,
}

/// A stretch of a table, in the order of its key.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) rows: u64,
    /// The last row; `None` if that is the table's.
    pub(crate) last: Option<Key>,
    /// With their shards, if they have one.
    pub(crate) superfluous: Vec<(Option<i16>, Key)>,
}

/// One of the rows that are superfluous; just the page if there is none.
pub(crate) struct PageRow {
    pub(crate) rows: i64,
    pub(crate) last_account_id: Uuid,
    pub(crate) last_row_id: Uuid,
    pub(crate) last_version: i64,
    pub(crate) last_slug_folded: String,
    pub(crate) account_id: Option<Uuid>,
    pub(crate) row_id: Option<Uuid>,
    pub(crate) version: Option<i64>,
    pub(crate) slug_folded: Option<String>,
    pub(crate) shard: Option<i16>,
}

/// Two parts: `page (account_id, row_id, version, slug_folded, place)`, and those rows of it that
/// are superfluous, with their `shard`.
macro_rules! page_rows {
    ($page:literal, $superfluous:literal, $($argument:expr),+) => {
        sqlx::query_as!(
            crate::read_models::pages::PageRow,
            "WITH page AS MATERIALIZED (" + $page + "), superfluous AS MATERIALIZED ("
            + $superfluous + r#")
            SELECT (SELECT count(*) FROM page) AS "rows!", last.account_id AS "last_account_id!",
                   last.row_id AS "last_row_id!", last.version AS "last_version!",
                   last.slug_folded AS "last_slug_folded!", s.account_id AS "account_id?",
                   s.row_id AS "row_id?", s.version AS "version?",
                   s.slug_folded AS "slug_folded?", s.shard AS "shard?"
            FROM (SELECT * FROM page ORDER BY place DESC LIMIT 1) AS last
            LEFT JOIN superfluous AS s ON true"#,
            $($argument),+
        )
    };
}

pub(crate) use page_rows;

impl From<Vec<PageRow>> for Page {
    fn from(rows: Vec<PageRow>) -> Self {
        let mut page = Self::default();
        for row in rows {
            page.rows = row.rows.unsigned_abs();
            page.last = (row.rows >= PAGE_ROWS).then_some(Key {
                account_id: row.last_account_id,
                row_id: row.last_row_id,
                version: row.last_version,
                slug_folded: row.last_slug_folded,
            });
            if let Some(account_id) = row.account_id {
                let key = Key {
                    account_id,
                    row_id: row.row_id.unwrap_or_default(),
                    version: row.version.unwrap_or_default(),
                    slug_folded: row.slug_folded.unwrap_or_default(),
                };
                page.superfluous.push((row.shard, key));
            }
        }
        page
    }
}
