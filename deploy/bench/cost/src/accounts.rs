//! Accounts that creates are charged to: one in each shard, so that each batch touches the same
//! shards.

use linkledger_bench::data_set;
use linkledger_core::{
    api_key::{ApiKey, Scope},
    clock::{Clock as _, SystemClock, new_uuid},
    id::{AccountId, KeyId},
    shard::Shard,
};
use linkledger_event_store::{
    accounts,
    api_keys::{self, NewKey},
};
use sqlx::PgPool;
use uuid::Uuid;

/// Credits of each account, more than all creates charge.
const CREDITS: i64 = 1_000_000;
/// First candidate for the id of an account.
const FIRST_ID: u128 = 0x019a_a0b1_c2d3_7000_8000_0000_0000_0000;

pub(crate) struct Account {
    pub(crate) keys: Vec<ApiKey>,
}

/// Makes one account in each shard, each with `keys` API keys.
pub(crate) async fn create(pool: &PgPool, keys: usize) -> anyhow::Result<Vec<Account>> {
    let mut created = Vec::new();
    for shard in Shard::all() {
        let mut ids = (FIRST_ID..).map(|id| AccountId::from_uuid(Uuid::from_u128(id)));
        let account_id = ids.find(|id| Shard::of(*id) == shard);
        let account_id = account_id.expect("ids are spread over the shards");
        created.push(create_one(pool, account_id, keys).await?);
    }
    Ok(created)
}

/// Reads `count` accounts of a data set, in no order.
pub(crate) async fn of_data_set(url: &str, count: usize) -> anyhow::Result<Vec<Account>> {
    let accounts = data_set::accounts(url).await?;
    let accounts = accounts.into_iter().take(count);
    Ok(accounts
        .map(|account| Account {
            keys: vec![account.api_key],
        })
        .collect())
}

async fn create_one(pool: &PgPool, account_id: AccountId, keys: usize) -> anyhow::Result<Account> {
    let now = SystemClock.now();
    accounts::create(pool, account_id, "cost", now).await?;
    sqlx::query("UPDATE event_store.accounts SET balance = $2 WHERE account_id = $1")
        .bind(account_id.uuid())
        .bind(CREDITS)
        .execute(pool)
        .await?;
    let keys: Vec<ApiKey> = (0..keys).map(|_| ApiKey::generate()).collect();
    for secret in &keys {
        let key = NewKey {
            key_id: KeyId::from_uuid(new_uuid(now)),
            account_id,
            secret,
            name: "cost",
            scopes: &Scope::ALL,
            expires_at: None,
            created_at: now,
        };
        api_keys::insert(pool, &key).await?;
    }
    Ok(Account { keys })
}
