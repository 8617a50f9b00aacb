//! Read model `redirects`.

mod changes;
mod expected;
pub(crate) mod lookup;
pub mod projection;
mod stopped_accounts;

pub use self::changes::RedirectChanges;
use super::{
    description::{
        CacheEntry, Column, Explanation, ReadModel, ReadTable, RebuiltFrom, RowId, WhyRows,
    },
    links::expected::last_event,
};

/// Description of the read model.
pub static READ_MODEL: ReadModel = ReadModel {
    tables: &[REDIRECTS, STOPPED_ACCOUNTS],
    rebuilt_from: RebuiltFrom::Links,
    why: WhyRows::Redirects,
};

/// Destination and state of each slug.
const REDIRECTS: ReadTable = ReadTable {
    name: "redirects",
    key: &[Column::new("slug_folded", "text")],
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
    events_of_row_max: "1",
    rare_events: &[],
    explanation: Some(Explanation {
        owner: "event_store.slugs AS owner ON owner.slug_folded = page.slug_folded",
        event: || "e.stream_id = owner.link_id".to_owned(),
    }),
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
    events_of_row_max: "1",
    rare_events: &["AccountSuspended", "AccountResumed"],
    explanation: None,
    invalidates: CacheEntry::Account,
};
