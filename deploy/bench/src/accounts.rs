//! Accounts for loads.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use linkledger_command_api::admin::{
    account,
    credits::{self, CreditsChange, CreditsRequest},
    key::{self, IssueKey},
};
use linkledger_core::{
    api_key::{ApiKey, Scope},
    clock::SystemClock,
    id::AccountId,
};
use linkledger_event_store::SessionKind;
use sqlx::PgPool;

/// Credits of each account, more than any load charges.
const CREDITS: i64 = 1_000_000_000;
/// Number of accounts that are made at the same time.
const AT_ONCE: usize = 8;

/// An account with credits, and an API key with every scope.
#[derive(Debug, Clone)]
pub struct LoadAccount {
    /// Id of the account.
    pub account_id: AccountId,
    /// API key for the requests.
    pub api_key: ApiKey,
}

/// Makes `count` accounts in the database, as an operator would.
///
/// # Errors
/// Returns an error if Postgres refuses a statement.
pub async fn create(url: &str, count: usize) -> anyhow::Result<Vec<LoadAccount>> {
    let connections = u32::try_from(AT_ONCE).expect("a few");
    let pool = linkledger_event_store::pool(url, SessionKind::Writer, connections)?;
    let accounts = stream::iter(0..count)
        .map(|number| create_one(&pool, number))
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    pool.close().await;
    Ok(accounts)
}

async fn create_one(pool: &PgPool, number: usize) -> anyhow::Result<LoadAccount> {
    let name = format!("bench {number}");
    let account_id = account::create(pool, &SystemClock, &name).await?;
    let grant = CreditsRequest {
        amount: CREDITS,
        account: account_id,
        reason: "bench".to_owned(),
        idempotency_key: None,
    };
    credits::change(pool, &SystemClock, CreditsChange::Grant, &grant).await?;
    let request = IssueKey {
        account: account_id,
        scopes: Scope::ALL.to_vec(),
        name,
        expires_at: None,
    };
    let api_key = ApiKey::generate();
    key::issue(pool, &SystemClock, &request, &api_key).await?;
    Ok(LoadAccount {
        account_id,
        api_key,
    })
}
