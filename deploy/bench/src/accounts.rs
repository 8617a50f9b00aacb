//! Accounts for loads.

use linkledger_command_api::admin::{
    Author, Request,
    account::{self, NewAccount},
    credits,
    key::{self, IssueKey, NewSecret},
};
use linkledger_core::{
    api_key::{ApiKey, Scope},
    clock::SystemClock,
    credits::GrantRequest,
    id::AccountId,
};
use linkledger_event_store::SessionKind;
use sqlx::PgPool;

/// Credits of each account, more than any load charges.
const CREDITS: i64 = 1_000_000_000;

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
    let pool = linkledger_event_store::pool(url, SessionKind::Writer, 1)?;
    let mut accounts = Vec::with_capacity(count);
    for number in 0..count {
        accounts.push(create_one(&pool, number).await?);
    }
    pool.close().await;
    Ok(accounts)
}

async fn create_one(pool: &PgPool, number: usize) -> anyhow::Result<LoadAccount> {
    let request = Request::new(pool, &SystemClock, &Author::Operator("bench".to_owned()));
    let name = format!("bench {number}");
    let new = NewAccount {
        name: name.clone(),
        external_id: None,
        low_balance_at: None,
    };
    let account_id = account::create(&request, &new).await?.value.id;
    let wanted = IssueKey {
        account: account_id,
        scopes: Scope::ALL.to_vec(),
        name,
        expires_at: None,
    };
    let api_key = ApiKey::generate();
    key::issue(&request, &wanted, &NewSecret::Generated(api_key.clone())).await?;
    let grant = GrantRequest {
        amount: CREDITS,
        reason: "bench".to_owned(),
        ..GrantRequest::default()
    };
    credits::grant(&request, account_id, &grant).await?;
    Ok(LoadAccount {
        account_id,
        api_key,
    })
}
