//! Parked accounts: another attempt to apply their waiting events, and events that are left out.

mod retry;
mod skip;

pub use self::{
    retry::{Retried, retry},
    skip::{Skip, Skipped, preview, skip},
};

/// Most read models that one account can be parked in.
pub(crate) const PARKINGS_OF_ACCOUNT_MAX: i64 = 100;
