//! Parked accounts: list, retry of the waiting events, and skipping of an event.

mod report;
mod retry;
mod skip;

pub(crate) use self::report::parkings;
pub use self::{
    report::{ParkedReport, list},
    retry::{RetriedAccount, retry},
    skip::{SkipRequest, SkippedEvent, preview, skip},
};

/// Upper bound of the read models that one account can be parked in.
pub(crate) const PARKINGS_OF_ACCOUNT_MAX: i64 = 100;
