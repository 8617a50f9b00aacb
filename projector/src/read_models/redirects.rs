//! Read model `redirects`.

mod changes;
mod expected;
pub mod projection;
mod stopped_accounts;

pub use self::changes::RedirectChanges;
use self::expected::IS_STATUS_EVENT;
use super::{
    description::{ACCOUNT_OF_KEY, CacheEntry, Column, Explanation, ReadTable, RowId},
    links::expected::last_event,
};

/// Tables of the read model.
pub static TABLES: &[ReadTable] = &[REDIRECTS, STOPPED_ACCOUNTS];

/// Destination and state of each slug.
const REDIRECTS: ReadTable = ReadTable {
    name: "redirects",
    key: &[Column::new("slug_key", "text")],
    values: &[
        Column::new("link_id", "uuid"),
        Column::new("account_id", "uuid"),
        Column::new("destination_url", "text"),
        Column::new("state", "text"),
        Column::new("expires_at", "timestamp with time zone"),
        Column::new("expired_url", "text"),
    ],
    row_id: RowId::Link("link_id"),
    expected: expected::redirects,
    events_of_row: last_event,
    explanation: Explanation {
        owner: "event_store.slugs AS owner ON owner.slug_key = page.slug_key",
        event: || "e.stream_id = owner.link_id".to_owned(),
    },
    invalidates: CacheEntry::Slug,
};

/// Accounts whose links do not redirect.
const STOPPED_ACCOUNTS: ReadTable = ReadTable {
    name: "stopped_accounts",
    key: &[Column::new("account_id", "uuid")],
    values: &[],
    row_id: RowId::Account,
    expected: expected::stopped_accounts,
    events_of_row: last_event,
    explanation: Explanation {
        owner: ACCOUNT_OF_KEY,
        event: || format!("e.account_id = page.account_id AND {IS_STATUS_EVENT}"),
    },
    invalidates: CacheEntry::Account,
};
