//! Read model `links`.

pub(crate) mod expected;
pub(crate) mod lookup;
mod orphans;
pub mod projection;

use super::description::{CacheEntry, Column, ReadTable, RowId};

/// Read tables of the read model.
pub static TABLES: [ReadTable; 1] = [ReadTable {
    name: "links",
    key: &[Column::uuid("account_id"), Column::uuid("link_id")],
    values: &[
        Column::text("slug"),
        Column::text("destination_url"),
        Column::bigint("version"),
        Column::timestamp("created_at"),
    ],
    row_id: RowId::Link("link_id"),
    expected: expected::links,
    events_of_row: expected::events_of_link,
    events_of_row_max: "version",
    rare_events: &[],
    explanation: Some(orphans::CREATED),
    invalidates: CacheEntry::None,
}];
