//! Read model `links`.

pub(crate) mod expected;
pub mod projection;
mod tags;

use super::description::{ACCOUNT_OF_KEY, CacheEntry, Column, Explanation, ReadTable, RowId};

/// Tables of the read model.
pub static TABLES: &[ReadTable] = &[LINKS, TAGS];

/// Links of each account.
const LINKS: ReadTable = ReadTable {
    name: "links",
    key: &[
        Column::new("account_id", "uuid"),
        Column::new("link_id", "uuid"),
    ],
    values: &[
        Column::new("slug", "text"),
        Column::new("destination_url", "text"),
        Column::new("version", "bigint"),
        Column::new("created_at", "timestamp with time zone"),
        Column::new("title", "text"),
        Column::new("external_id", "text"),
        Column::new("tags", "text[]"),
        Column::new("expires_at", "timestamp with time zone"),
        Column::new("expired_url", "text"),
        Column::new("disabled_by", "text"),
    ],
    row_id: RowId::Link("link_id"),
    expected: expected_rows,
    events_of_row: expected::last_event,
    explanation: Explanation {
        owner: ACCOUNT_OF_KEY,
        event: || {
            "e.stream_id = page.link_id AND e.account_id = page.account_id
             AND e.stream_id <> e.account_id"
                .to_owned()
        },
    },
    invalidates: CacheEntry::None,
};

/// Links of each tag of an account.
const TAGS: ReadTable = ReadTable {
    name: "link_tags",
    key: &[
        Column::new("account_id", "uuid"),
        Column::new("tag", "text"),
        Column::new("link_id", "uuid"),
    ],
    values: &[],
    row_id: RowId::Link("link_id"),
    expected: expected_tags,
    events_of_row: expected::last_event,
    explanation: Explanation {
        owner: ACCOUNT_OF_KEY,
        event: expected::leaves_tag,
    },
    invalidates: CacheEntry::None,
};

/// Returns the expected rows, with the columns of [`LINKS`]: a deleted link has none.
fn expected_rows(events: &str) -> String {
    let link_states = expected::link_states(events);
    format!(
        "{link_states}, expected AS MATERIALIZED (
            SELECT link_states.*, link_id AS row_id, NOT is_deleted AS is_expected FROM link_states
        )"
    )
}

/// Returns the expected rows, with the columns of [`TAGS`]. A row of a tag that the link has lost is an
/// orphan.
fn expected_tags(events: &str) -> String {
    let link_states = expected::link_states(events);
    format!(
        "{link_states}, expected AS MATERIALIZED (
            SELECT account_id, link_id AS row_id, true AS is_expected, tag, link_id, position
            FROM link_states
            CROSS JOIN LATERAL unnest(tags) AS tag
            WHERE NOT is_deleted
        )"
    )
}
