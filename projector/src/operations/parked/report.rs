//! Report of the parked accounts.

use anyhow::Context as _;
use linkledger_core::{id::AccountId, shard::Position, timestamp};
use serde::Serialize;
use sqlx::PgPool;

use crate::pipeline::parking::{
    Parking,
    listing::{self, ListedParking},
};

/// Parked account in one projection.
#[derive(Debug, Clone, Serialize)]
pub struct ParkedReport {
    /// Id of the account.
    pub account_id: AccountId,
    /// Name of the projection.
    pub projection: &'static str,
    /// Time at which the account was parked.
    pub parked_at: String,
    /// Shard of the account.
    pub shard: i16,
    /// Position of the poison event.
    pub position: Position,
    /// Type of the poison event.
    pub event_type: String,
    /// Code of the reason, for programs.
    pub reason: &'static str,
    /// Reason in words.
    pub detail: String,
    /// Number of waiting events.
    pub waiting: i64,
}

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
) -> anyhow::Result<Vec<ParkedReport>> {
    let parked = parkings(pool, account_id, limit).await?;
    Ok(parked.into_iter().map(ParkedReport::from).collect())
}

/// Reads up to `limit` parkings; with `account_id`, only those of this account.
pub(crate) async fn parkings(
    pool: &PgPool,
    account_id: Option<AccountId>,
    limit: i64,
) -> anyhow::Result<Vec<ListedParking>> {
    let parked = listing::list(pool, account_id, limit).await;
    parked.context("cannot read which accounts are parked")
}

impl From<ListedParking> for ParkedReport {
    fn from(listed: ListedParking) -> Self {
        let Parking { account, cause } = listed.parking;
        Self {
            account_id: account.account_id,
            projection: account.projection.name(),
            parked_at: timestamp::format(listed.parked_at),
            shard: account.shard.number(),
            position: cause.position,
            event_type: cause.event_type,
            reason: cause.poison.reason.name(),
            detail: cause.poison.detail,
            waiting: listed.waiting,
        }
    }
}
