//! Read model `credits`.

pub(crate) mod expected;
pub(crate) mod lookup;
mod orphans;
pub mod projection;

use super::description::{CacheEntry, Column, ReadTable, RowId};

/// Read tables of the read model.
pub static TABLES: [ReadTable; 2] = [BALANCES, ENTRIES];

/// Balance of each account.
const BALANCES: ReadTable = ReadTable {
    name: "credit_balances",
    key: &[Column::uuid("account_id")],
    values: &[Column::bigint("balance"), Column::bigint("version")],
    row_id: RowId::Account,
    expected: expected::balances,
    events_of_row: expected::entry_and_last_event,
    events_of_row_max: "2",
    rare_events: &[],
    explanation: Some(orphans::FIRST_BOOKED),
    invalidates: CacheEntry::None,
};

/// Entries of each account's ledger.
pub(crate) const ENTRIES: ReadTable = ReadTable {
    name: "credit_entries",
    key: &[Column::uuid("account_id"), Column::bigint("version")],
    values: &[
        Column::uuid("entry_id"),
        Column::text("type"),
        Column::bigint("amount"),
        Column::bigint("balance_after"),
        Column::uuid("link_id"),
        Column::timestamp("created_at"),
    ],
    row_id: RowId::Entry("entry_id"),
    expected: expected::entries,
    events_of_row: expected::entry_and_last_event,
    events_of_row_max: "2",
    rare_events: &[],
    explanation: Some(orphans::BOOKED),
    invalidates: CacheEntry::None,
};
