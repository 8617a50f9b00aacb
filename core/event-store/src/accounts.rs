//! Accounts. The row of an account is the lock for all decisions about the account.

use std::collections::HashMap;

use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use linkledger_core::{
    account::AccountStatus,
    credits::Credits,
    id::AccountId,
    shard::{Position, Shard},
};

const ACTIVE: &str = "active";
const SUSPENDED: &str = "suspended";

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
        SELECT account_id, balance, version
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
        SELECT account_id, balance, version
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

/// Creates an account without credits.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn create(
    pool: &PgPool,
    account_id: AccountId,
    name: &str,
    created_at: OffsetDateTime,
) -> sqlx::Result<()> {
    sqlx::query!(
        "
        INSERT INTO event_store.accounts (account_id, shard, name, created_at)
        VALUES ($1, $2, $3, $4)
        ",
        account_id.uuid(),
        Shard::of(account_id).number(),
        name,
        created_at
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Reads the status of an account. The caller must have locked the account, so that the status
/// stays valid.
///
/// # Errors
/// Returns an error if the database fails or the account does not exist.
pub async fn status_in_tx(
    tx: &mut PgConnection,
    account_id: AccountId,
) -> sqlx::Result<AccountStatus> {
    let row = sqlx::query!(
        "SELECT status, redirects_stopped FROM event_store.accounts WHERE account_id = $1",
        account_id.uuid()
    )
    .fetch_one(tx)
    .await?;
    Ok(status(&row.status, row.redirects_stopped))
}

fn status(status: &str, redirects_stopped: bool) -> AccountStatus {
    if status == ACTIVE {
        AccountStatus::Active
    } else {
        AccountStatus::Suspended {
            stop_redirects: redirects_stopped,
        }
    }
}

/// A row of the accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAccount {
    /// Name that an operator has given to the account.
    pub name: String,
    /// Credits of the account.
    pub credits: Credits,
    /// Status of the account.
    pub status: AccountStatus,
    /// Time at which the account was created.
    pub created_at: OffsetDateTime,
}

/// Reads an account without a lock.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn find(pool: &PgPool, account_id: AccountId) -> sqlx::Result<Option<StoredAccount>> {
    let row = sqlx::query!(
        "
        SELECT name, balance, version, status, redirects_stopped, created_at
        FROM event_store.accounts WHERE account_id = $1
        ",
        account_id.uuid()
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| StoredAccount {
        name: row.name,
        credits: Credits {
            balance: row.balance,
            version: row.version,
        },
        status: status(&row.status, row.redirects_stopped),
        created_at: row.created_at,
    }))
}

/// Accounts to list.
#[derive(Debug, Clone, Copy)]
pub struct AccountFilter<'a> {
    /// Part of the name, in upper or lower case; `None` for all accounts.
    pub name: Option<&'a str>,
    /// Account that the list begins after; `None` for the first account.
    pub after: Option<AccountId>,
    /// Maximum number of accounts.
    pub limit: i64,
}

/// Lists accounts in order of their ids, that is of their creation.
///
/// Reads the accounts by their ids until the limit is reached: all accounts if few names match.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(
    pool: &PgPool,
    filter: AccountFilter<'_>,
) -> sqlx::Result<Vec<(AccountId, StoredAccount)>> {
    let after = filter.after.map_or(Uuid::nil(), AccountId::uuid);
    let rows = sqlx::query!(
        r#"
        SELECT account_id, name, balance, version, status,
               redirects_stopped, created_at
        FROM event_store.accounts
        WHERE account_id > $1 AND ($2::text IS NULL OR strpos(lower(name), lower($2)) > 0)
        ORDER BY account_id
        LIMIT $3
        "#,
        after,
        filter.name,
        filter.limit
    )
    .fetch_all(pool)
    .await?;
    let accounts = rows.into_iter().map(|row| {
        let account = StoredAccount {
            name: row.name,
            credits: Credits {
                balance: row.balance,
                version: row.version,
            },
            status: status(&row.status, row.redirects_stopped),
            created_at: row.created_at,
        };
        (row.account_id.into(), account)
    });
    Ok(accounts.collect())
}

/// Stores the status of an account, for the authentication of API calls.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn set_status_in_tx(
    tx: &mut PgConnection,
    account_id: AccountId,
    status: AccountStatus,
) -> sqlx::Result<()> {
    let (status, redirects_stopped) = match status {
        AccountStatus::Active => (ACTIVE, false),
        AccountStatus::Suspended { stop_redirects } => (SUSPENDED, stop_redirects),
    };
    sqlx::query!(
        "
        UPDATE event_store.accounts SET status = $2, redirects_stopped = $3
        WHERE account_id = $1
        ",
        account_id.uuid(),
        status,
        redirects_stopped
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// A row of the accounts, read in one snapshot with the head of the account's shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountAtHead {
    /// Id of the account.
    pub account_id: AccountId,
    /// Number of the shard in the account's row.
    pub shard: i16,
    /// Credits of the account.
    pub credits: Credits,
    /// Status of the account.
    pub status: AccountStatus,
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
        SELECT a.account_id, a.shard, a.balance, a.version, a.status, a.redirects_stopped, s.head
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
    let accounts = rows.into_iter().map(|row| AccountAtHead {
        account_id: AccountId::from_uuid(row.account_id),
        shard: row.shard,
        credits: Credits {
            balance: row.balance,
            version: row.version,
        },
        status: status(&row.status, row.redirects_stopped),
        head: row.head,
    });
    Ok(accounts.collect())
}

struct AccountRow {
    account_id: AccountId,
    balance: i64,
    version: i64,
}

impl AccountRow {
    fn into_entry(self) -> (AccountId, Credits) {
        let (balance, version) = (self.balance, self.version);
        (self.account_id, Credits { balance, version })
    }
}
