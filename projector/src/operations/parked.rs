//! Operators' commands on parked accounts: list them, retry their waiting events, skip an event.

mod retry;
mod skip;

use anyhow::Context as _;
use linkledger_core::id::AccountId;
use sqlx::PgPool;

pub use self::{
    retry::{RetriedAccount, retry},
    skip::{SkipRequest, SkippedEvent, preview, skip},
};
use crate::pipeline::parking::listing::{self, ListedParking};

/// Limit of a query for the parkings of one account, one for each read model: far above their number.
pub(crate) const PARKINGS_OF_ACCOUNT_MAX: i64 = 100;

/// Reads up to `limit` parkings, each of one account in one projection; with `account_id`, only those
/// of this account.
///
/// # Errors
/// Returns an error if the database fails, or if a later version of linkledger parked an account for a
/// reason that this version does not know.
pub async fn list(
    pool: &PgPool,
    account_id: Option<AccountId>,
    limit: i64,
) -> anyhow::Result<Vec<ListedParking>> {
    let parked = listing::list(pool, account_id, limit).await;
    parked.context("cannot read which accounts are parked")
}
