//! Accounts. The row of an account is the lock for all decisions about the account.

use std::collections::HashMap;

use sqlx::{PgConnection, PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::transaction::PoolTransaction;
use linkledger_core::{
    account::{Account, AccountState, AccountStatus},
    credits::{Credits, LowBalanceAt},
    id::AccountId,
    shard::{Position, Shard},
};

/// Locks the accounts that no other transaction has locked. Returns their credits.
///
/// Accounts that are missing in the result are locked by another transaction, or do not exist.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn lock_free_ones_in_tx(
    tx: &mut PgConnection,
    account_ids: &[AccountId],
) -> sqlx::Result<HashMap<AccountId, Credits>> {
    let account_ids: Vec<Uuid> = account_ids.iter().map(|id| id.uuid()).collect();
    // Not FOR UPDATE, which would block the foreign keys that reference accounts.
    let rows = sqlx::query_as!(
        AccountRow,
        r#"
        SELECT account_id, balance, version, low_balance_at
        FROM event_store.accounts
        WHERE account_id = ANY($1)
        ORDER BY account_id
        FOR NO KEY UPDATE SKIP LOCKED
        "#,
        &account_ids
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into_iter().map(AccountRow::into_entry).collect())
}

/// Locks the accounts, waiting for other transactions. Returns their credits.
///
/// # Errors
/// Returns an error if the database fails or a lock times out (SQLSTATE 55P03).
pub async fn lock_in_tx(
    tx: &mut PgConnection,
    account_ids: &[AccountId],
) -> sqlx::Result<HashMap<AccountId, Credits>> {
    let account_ids: Vec<Uuid> = account_ids.iter().map(|id| id.uuid()).collect();
    let rows = sqlx::query_as!(
        AccountRow,
        r#"
        SELECT account_id, balance, version, low_balance_at
        FROM event_store.accounts
        WHERE account_id = ANY($1)
        ORDER BY account_id
        FOR NO KEY UPDATE
        "#,
        &account_ids
    )
    .fetch_all(tx)
    .await?;
    Ok(rows.into_iter().map(AccountRow::into_entry).collect())
}

/// Creates the row of an account, without credits and events: the caller appends its first event.
///
/// # Errors
/// Returns an error if the database fails, or another account has the external id (`accounts_external_id_unique`)
/// or was created by a request with the same idempotency key (`accounts_creation_key_unique`).
pub async fn create_in_tx(
    tx: &mut PgConnection,
    account: &Account,
    creation_key: Option<&str>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "
        INSERT INTO event_store.accounts
            (account_id, shard, name, external_id, creation_key, low_balance_at, status,
             redirects_stopped, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ",
        account.account_id.uuid(),
        Shard::of(account.account_id).number(),
        account.name,
        account.external_id.as_deref(),
        creation_key,
        account.low_balance_at.as_slice(),
        account.status.state().name(),
        account.status.redirects_stopped(),
        account.created_at
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Reads an account. The caller must have locked the account, so that it stays as it is.
///
/// # Errors
/// Returns an error if the database fails or the account does not exist.
pub async fn get_in_tx(tx: &mut PgConnection, account_id: AccountId) -> sqlx::Result<Account> {
    let row = sqlx::query!(
        "
        SELECT account_id, name, external_id, low_balance_at, status, redirects_stopped,
               created_at
        FROM event_store.accounts
        WHERE account_id = $1
        ",
        account_id.uuid()
    )
    .fetch_one(tx)
    .await?;
    Ok(Account {
        account_id: AccountId::from_uuid(row.account_id),
        name: row.name,
        external_id: row.external_id,
        low_balance_at: LowBalanceAt::stored(&row.low_balance_at),
        status: status(&row.status, row.redirects_stopped),
        created_at: row.created_at,
    })
}

/// Stores name, external id, thresholds and status of an account, as its last event says. The caller must have locked the
/// account.
///
/// # Errors
/// Returns an error if the database fails, or another account has the external id (`accounts_external_id_unique`).
pub async fn update_in_tx(tx: &mut PgConnection, account: &Account) -> sqlx::Result<()> {
    sqlx::query!(
        "
        UPDATE event_store.accounts
        SET name = $2, external_id = $3, low_balance_at = $4, status = $5, redirects_stopped = $6
        WHERE account_id = $1
        ",
        account.account_id.uuid(),
        account.name,
        account.external_id.as_deref(),
        account.low_balance_at.as_slice(),
        account.status.state().name(),
        account.status.redirects_stopped()
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Finds the account with this external id.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_by_external_id(
    executor: impl PgExecutor<'_>,
    external_id: &str,
) -> sqlx::Result<Option<AccountId>> {
    let account_id = sqlx::query_scalar!(
        "SELECT account_id FROM event_store.accounts WHERE external_id = $1",
        external_id
    )
    .fetch_optional(executor)
    .await?;
    Ok(account_id.map(AccountId::from_uuid))
}

/// Finds the account that a request with this idempotency key created.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find_by_creation_key_in_tx(
    tx: &mut PgConnection,
    creation_key: &str,
) -> sqlx::Result<Option<AccountId>> {
    let account_id = sqlx::query_scalar!(
        "SELECT account_id FROM event_store.accounts WHERE creation_key = $1",
        creation_key
    )
    .fetch_optional(tx)
    .await?;
    Ok(account_id.map(AccountId::from_uuid))
}

/// An account with its balance, read without a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedAccount {
    /// The account.
    pub account: Account,
    /// Balance, in credits.
    pub balance: i64,
    /// Number of events in the account's stream.
    pub version: i64,
}

/// Reads an account without a lock; `None` if there is no such account.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn get(pool: &PgPool, account_id: AccountId) -> sqlx::Result<Option<ListedAccount>> {
    let row = sqlx::query_as!(
        ListedRow,
        "
        SELECT account_id, name, external_id, low_balance_at, balance, version, status,
               redirects_stopped, created_at
        FROM event_store.accounts
        WHERE account_id = $1
        ",
        account_id.uuid()
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(ListedRow::into_listed))
}

/// Accounts to list: those that match every member that has a value.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccountFilter<'a> {
    /// Id in the seller's system.
    pub external_id: Option<&'a str>,
    /// Part of the name or of the external id, in upper or lower case.
    pub q: Option<&'a str>,
    /// State.
    pub state: Option<AccountState>,
}

/// Settings of a search: the plan depends on the parameters, since each filter but `active` has an index of its own,
/// and the index of trigrams is read by bitmaps only.
const SET_SEARCH: &str =
    "SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_bitmapscan = on";

/// Lists accounts in order of their ids, that is of their creation, beginning after the account `after`.
///
/// A part of at least three characters is found by an index; for a shorter one accounts are read in order until the
/// limit is reached.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(
    pool: &PgPool,
    filter: &AccountFilter<'_>,
    after: Option<AccountId>,
    limit: i64,
) -> sqlx::Result<Vec<ListedAccount>> {
    let mut tx = PoolTransaction::begin(pool).await?;
    sqlx::raw_sql(SET_SEARCH).execute(&mut *tx).await?;
    let rows = sqlx::query_as!(
        ListedRow,
        "
        SELECT account_id, name, external_id, low_balance_at, balance, version, status,
               redirects_stopped, created_at
        FROM event_store.accounts
        WHERE account_id > $1
          AND ($2::text IS NULL OR external_id = $2)
          AND ($3::text IS NULL OR status = $3)
          AND ($4::text IS NULL OR (
              event_store.trigrams(name || ' ' || coalesce(external_id, ''))
                  @> event_store.trigrams($4)
              AND (strpos(lower(name), lower($4)) > 0 OR strpos(lower(external_id), lower($4)) > 0)
          ))
        ORDER BY account_id
        LIMIT $5
        ",
        after.map_or(Uuid::nil(), AccountId::uuid),
        filter.external_id,
        filter.state.map(AccountState::name),
        filter.q,
        limit
    )
    .fetch_all(&mut *tx)
    .await?;
    tx.rollback().await?;
    Ok(rows.into_iter().map(ListedRow::into_listed).collect())
}

/// A row of the accounts, read in one snapshot with the head of the account's shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountAtHead {
    /// The account.
    pub account: Account,
    /// Idempotency key of the request that created the account, if it had one.
    pub creation_key: Option<String>,
    /// Number of the shard in the account's row.
    pub shard: i16,
    /// Credits of the account.
    pub credits: Credits,
    /// Head of the shard in the same snapshot.
    pub head: Position,
}

/// Reads up to `limit` accounts with ids after `after`, in order of their ids. Rows and heads are
/// read in one snapshot.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn read_after(
    pool: &PgPool,
    after: AccountId,
    limit: i64,
) -> sqlx::Result<Vec<AccountAtHead>> {
    let rows = sqlx::query!(
        "
        SELECT a.account_id, a.shard, a.name, a.external_id, a.creation_key, a.low_balance_at,
               a.balance, a.version, a.status, a.redirects_stopped, a.created_at, s.head
        FROM event_store.accounts AS a
        JOIN event_store.log_shards AS s ON s.shard = a.shard
        WHERE a.account_id > $1
        ORDER BY a.account_id
        LIMIT $2
        ",
        after.uuid(),
        limit
    )
    .fetch_all(pool)
    .await?;
    let accounts = rows.into_iter().map(|row| {
        let low_balance_at = LowBalanceAt::stored(&row.low_balance_at);
        AccountAtHead {
            account: Account {
                account_id: AccountId::from_uuid(row.account_id),
                name: row.name,
                external_id: row.external_id,
                low_balance_at,
                status: status(&row.status, row.redirects_stopped),
                created_at: row.created_at,
            },
            creation_key: row.creation_key,
            shard: row.shard,
            credits: Credits {
                balance: row.balance,
                version: row.version,
                low_balance_at,
            },
            head: row.head,
        }
    });
    Ok(accounts.collect())
}

fn status(state: &str, redirects_stopped: bool) -> AccountStatus {
    // An account in a state of a later release is not to be served.
    let state = AccountState::of_name(state).unwrap_or(AccountState::Suspended);
    AccountStatus::of(state, redirects_stopped)
}

/// Row of an account, with its credits.
struct ListedRow {
    account_id: Uuid,
    name: String,
    external_id: Option<String>,
    low_balance_at: Vec<i64>,
    balance: i64,
    version: i64,
    status: String,
    redirects_stopped: bool,
    created_at: OffsetDateTime,
}

impl ListedRow {
    fn into_listed(self) -> ListedAccount {
        ListedAccount {
            account: Account {
                account_id: AccountId::from_uuid(self.account_id),
                name: self.name,
                external_id: self.external_id,
                low_balance_at: LowBalanceAt::stored(&self.low_balance_at),
                status: status(&self.status, self.redirects_stopped),
                created_at: self.created_at,
            },
            balance: self.balance,
            version: self.version,
        }
    }
}

struct AccountRow {
    account_id: AccountId,
    balance: i64,
    version: i64,
    low_balance_at: Vec<i64>,
}

impl AccountRow {
    fn into_entry(self) -> (AccountId, Credits) {
        let credits = Credits {
            balance: self.balance,
            version: self.version,
            low_balance_at: LowBalanceAt::stored(&self.low_balance_at),
        };
        (self.account_id, credits)
    }
}
