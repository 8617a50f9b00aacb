//! Rows of the read tables, by key.

pub use crate::read_models::{
    credits::lookup::{BalanceRow, EntryRow},
    links::lookup::LinkRow,
    redirects::lookup::RedirectRow,
};
pub(super) use crate::read_models::{
    credits::lookup::{balance_in_tx, entry_in_tx},
    links::lookup::{LINKS_COUNTED_MAX, link_in_tx, links_in_tx},
    redirects::lookup::{is_stopped_in_tx, redirect_in_tx},
};
