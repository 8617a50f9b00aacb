//! Read model `links`.

mod detail_columns;
pub(crate) mod expected;
pub(crate) mod lookup;
pub mod projection;
mod tags;

use super::description::{
    CacheEntry, Column, Explanation, ReadModel, ReadTable, RebuiltFrom, RowId, WhyRows,
};

/// Description of the read model.
pub static READ_MODEL: ReadModel = ReadModel {
    tables: &[LINKS, TAGS],
    rebuilt_from: RebuiltFrom::Links,
    why: WhyRows::Links,
};

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
    events_of_row: expected::events_of_link,
    events_of_row_max: "version",
    rare_events: &[],
    explanation: Some(Explanation {
        owner: "event_store.accounts AS owner ON owner.account_id = page.account_id",
        event: "e.stream_id = page.link_id AND e.version = 1 AND e.account_id = page.account_id
                AND e.type = 'LinkCreated'",
    }),
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
    events_of_row: events_of_tag,
    events_of_row_max: "version",
    rare_events: &[],
    explanation: Some(Explanation {
        owner: "event_store.accounts AS owner ON owner.account_id = page.account_id",
        event: "e.stream_id = page.link_id AND e.account_id = page.account_id
                AND page.tag IN (
                    SELECT json_array_elements_text(
                        CASE json_typeof(tags) WHEN 'array' THEN tags ELSE '[]' END
                    )
                    FROM (SELECT CASE e.type WHEN 'LinkCreated' THEN e.payload->'tags'
                                             WHEN 'LinkDetailsChanged'
                                             THEN e.payload#>'{changes,tags,to}'
                                 END AS tags) AS given
                )",
    }),
    invalidates: CacheEntry::None,
};

/// Returns the expected rows, with the columns of [`LINKS`]: a deleted link has none.
fn expected_rows() -> String {
    let link_states = expected::link_states();
    format!(
        "{link_states}, expected AS MATERIALIZED (
            SELECT account_id, link_id AS row_id, state <> 'deleted' AS is_expected, link_id,
                   created->>'slug' AS slug, destination_url, version, created_at,
                   details->>'title' AS title, details->>'external_id' AS external_id,
                   CASE WHEN json_typeof(details->'tags') = 'array' THEN ARRAY(
                       SELECT json_array_elements_text(details->'tags')
                   ) END AS tags,
                   expires_at, expired_url, disabled_by
            FROM link_states
        )"
    )
}

/// Returns the query of the events of a tag's link; of none if the link lacks the tag, so that a repair deletes the row.
fn events_of_tag() -> String {
    format!("{} AND wrong.is_expected", expected::events_of_link())
}

/// Returns the expected rows, with the columns of [`TAGS`]: a tag that the link has lost has none.
fn expected_tags() -> String {
    let link_states = expected::link_states();
    format!(
        "{link_states}, tags AS MATERIALIZED (
            SELECT account_id, link_id, version, tag, true AS is_present
            FROM link_states
            CROSS JOIN LATERAL json_array_elements_text(details->'tags') AS tag
            WHERE state <> 'deleted' AND json_typeof(details->'tags') = 'array'
            UNION ALL
            SELECT account_id, link_id, version, tag, false
            FROM link_states AS l
            CROSS JOIN LATERAL (
                SELECT CASE type WHEN 'LinkCreated' THEN payload->'tags'
                                 ELSE payload#>'{{changes,tags,to}}'
                       END AS tags
                FROM event_store.events
                WHERE shard = $7 AND stream_id = l.link_id AND l.version > 1
                  AND type IN ('LinkCreated', 'LinkDetailsChanged')
            ) AS given
            CROSS JOIN LATERAL json_array_elements_text(given.tags) AS tag
            WHERE json_typeof(given.tags) = 'array'
        ), expected AS MATERIALIZED (
            SELECT account_id, link_id AS row_id, bool_or(is_present) AS is_expected, tag, link_id,
                   version
            FROM tags
            GROUP BY account_id, link_id, tag, version
        )"
    )
}
