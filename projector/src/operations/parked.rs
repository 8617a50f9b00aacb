//! Operators' commands on parked accounts: list them, retry their waiting events, skip an event.

mod report;
mod retry;
mod skip;

pub(crate) use self::report::parkings;
pub use self::{
    report::{ParkedReport, list},
    retry::{RetriedAccount, retry},
    skip::{SkipRequest, SkippedEvent, preview, skip},
};

/// Limit of a query for the parkings of one account, one for each read model: far above their number.
pub(crate) const PARKINGS_OF_ACCOUNT_MAX: i64 = 100;
