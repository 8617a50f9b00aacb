//! Read model `redirects`.

mod changes;
mod expected;
mod folded_slugs;
pub(crate) mod lookup;
mod orphans;
pub mod projection;
mod stopped_accounts;

pub(crate) use self::folded_slugs::fold;
pub use self::{changes::RedirectChanges, folded_slugs::FoldedSlugs};
use super::{
    description::{CacheEntry, Column, ReadTable, RowId},
    links::expected::events_of_link,
};

/// Read tables of the read model.
pub static TABLES: [ReadTable; 2] = [REDIRECTS, STOPPED_ACCOUNTS];

/// Destination and state of each slug.
const REDIRECTS: ReadTable = ReadTable {
    name: "redirects",
    key: &[Column::text("slug_folded")],
    values: &[
        Column::uuid("link_id"),
        Column::uuid("account_id"),
        Column::text("destination_url"),
        Column::text("state"),
    ],
    row_id: RowId::Link("link_id"),
    expected: expected::redirects,
    events_of_row: events_of_link,
    events_of_row_max: "version",
    rare_events: &[],
    explanation: Some(orphans::CREATED),
    invalidates: CacheEntry::Slug,
};

/// Accounts whose links do not redirect.
const STOPPED_ACCOUNTS: ReadTable = ReadTable {
    name: "stopped_accounts",
    key: &[Column::uuid("account_id")],
    values: &[],
    row_id: RowId::Account,
    expected: expected::stopped_accounts,
    events_of_row: expected::status_event,
    events_of_row_max: "1",
    rare_events: &["AccountSuspended", "AccountResumed"],
    explanation: None,
    invalidates: CacheEntry::Account,
};
