//! Accounts that creates are charged to: one in each shard, so that each batch touches the same
//! shards.

use linkledger_bench::data_set;
use linkledger_core::{
    account::{Account as StoredAccount, AccountStatus},
    api_key::{ApiKey, KeyState, Scope},
    clock::{Clock as _, SystemClock, new_uuid},
    credits::LowBalanceAt,
    id::{AccountId, KeyId},
    shard::Shard,
};
use linkledger_event_store::{
    accounts,
    api_keys::{self, KeySecret},
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
    let account = StoredAccount {
        account_id,
        name: "cost".to_owned(),
        external_id: None,
        low_balance_at: LowBalanceAt::NONE,
        status: AccountStatus::Active,
        created_at: SystemClock.now(),
    };
    let mut session = pool.acquire().await?;
    accounts::create_in_tx(&mut session, &account, None).await?;
    sqlx::query("UPDATE event_store.accounts SET balance = $2 WHERE account_id = $1")
        .bind(account_id.uuid())
        .bind(CREDITS)
        .execute(&mut *session)
        .await?;
    let keys: Vec<ApiKey> = (0..keys).map(|_| ApiKey::generate()).collect();
    for secret in &keys {
        let key = KeyState {
            account_id,
            key_id: KeyId::from_uuid(new_uuid(account.created_at)),
            name: "cost".to_owned(),
            scopes: Scope::names(&Scope::ALL),
            created_at: account.created_at,
            expires_at: None,
            revoked_at: None,
        };
        api_keys::insert_in_tx(&mut session, &key, &KeySecret::of(secret)).await?;
    }
    Ok(Account { keys })
}
