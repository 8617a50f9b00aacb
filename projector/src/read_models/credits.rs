//! Read model `credits`.

pub(crate) mod expected;
pub mod projection;

use self::expected::IS_CREDIT_EVENT;
use super::description::{ACCOUNT_OF_KEY, CacheEntry, Column, Explanation, ReadTable, RowId};

/// Tables of the read model.
pub static TABLES: &[ReadTable] = &[BALANCES, ENTRIES];

/// Balance of each account.
const BALANCES: ReadTable = ReadTable {
    name: "credit_balances",
    key: &[Column::new("account_id", "uuid")],
    values: &[
        Column::new("balance", "bigint"),
        Column::new("version", "bigint"),
    ],
    row_id: RowId::Account,
    expected: expected::balances,
    events_of_row: expected::entry_and_last_event,
    explanation: Explanation {
        owner: ACCOUNT_OF_KEY,
        event: || format!("e.stream_id = page.account_id AND {IS_CREDIT_EVENT}"),
    },
    invalidates: CacheEntry::None,
};

/// Entries of each account's ledger.
pub(crate) const ENTRIES: ReadTable = ReadTable {
    name: "credit_entries",
    key: &[
        Column::new("account_id", "uuid"),
        Column::new("version", "bigint"),
    ],
    values: &[
        Column::new("entry_id", "uuid"),
        Column::new("type", "text"),
        Column::new("amount", "bigint"),
        Column::new("balance_after", "bigint"),
        Column::new("link_id", "uuid"),
        Column::new("description", "text"),
        Column::new("refunds", "uuid"),
        Column::new("created_at", "timestamp with time zone"),
    ],
    row_id: RowId::Entry("entry_id"),
    expected: expected::entries,
    events_of_row: expected::entry_and_last_event,
    explanation: Explanation {
        owner: ACCOUNT_OF_KEY,
        event: || {
            format!(
                "e.stream_id = page.account_id AND e.version = page.version AND {IS_CREDIT_EVENT}"
            )
        },
    },
    invalidates: CacheEntry::None,
};
