use linkledger_core::{
    account::{Account, AccountState, AccountStatus},
    clock::{Clock as _, SystemClock},
    credits::LowBalanceAt,
    id::AccountId,
};
use linkledger_event_store::{
    accounts::{self, AccountFilter},
    transaction::PoolTransaction,
};
use linkledger_testing::{self as testing, TestDatabase};
use sqlx::PgPool;

use crate::violated;

/// Number of accounts of a large service.
const MANY: i64 = 20_000;
/// Upper bound of entries of the primary key that a page of accounts reads; its plan reads some, too.
const ENTRIES_MAX: i64 = 100;

fn account(name: &str, external_id: Option<&str>) -> Account {
    Account {
        account_id: testing::new_account_id(),
        name: name.to_owned(),
        external_id: external_id.map(str::to_owned),
        low_balance_at: LowBalanceAt::of(vec![100, 10]).unwrap(),
        status: AccountStatus::Active,
        created_at: SystemClock.now(),
    }
}

async fn create(pool: &PgPool, account: &Account, creation_key: Option<&str>) -> sqlx::Result<()> {
    let mut tx = PoolTransaction::begin(pool).await.unwrap();
    accounts::create_in_tx(&mut tx, account, creation_key).await?;
    tx.commit().await
}

#[tokio::test]
async fn account_is_read_as_it_was_written() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let mut account = account("Example Ltd", Some("customers/4711"));
    create(pool, &account, Some("order-1")).await.unwrap();
    let mut tx = PoolTransaction::begin(pool).await.unwrap();
    let read = accounts::get_in_tx(&mut tx, account.account_id).await;
    assert_eq!(read.unwrap(), account);
    account.name = "Example plc".to_owned();
    account.external_id = None;
    account.low_balance_at = LowBalanceAt::NONE;
    account.status = AccountStatus::Suspended {
        stop_redirects: true,
    };
    accounts::update_in_tx(&mut tx, &account).await.unwrap();
    tx.commit().await.unwrap();
    let listed = accounts::get(pool, account.account_id).await.unwrap();
    let listed = listed.unwrap();
    assert_eq!(listed.account, account);
    assert_eq!((listed.balance, listed.version), (0, 0));
    let unknown = accounts::get(pool, testing::new_account_id()).await;
    assert_eq!(unknown.unwrap(), None);
}

#[tokio::test]
async fn external_id_and_creation_key_lead_to_one_account() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let first = account("first", Some("customers/1"));
    create(pool, &first, Some("order-1")).await.unwrap();
    let same_id = account("second", Some("customers/1"));
    let refused = violated(create(pool, &same_id, None).await);
    assert_eq!(refused, "accounts_external_id_unique");
    let same_key = account("second", None);
    let refused = violated(create(pool, &same_key, Some("order-1")).await);
    assert_eq!(refused, "accounts_creation_key_unique");

    let mut session = pool.acquire().await.unwrap();
    let by_id = accounts::find_by_external_id(pool, "customers/1").await;
    assert_eq!(by_id.unwrap(), Some(first.account_id));
    let by_key = accounts::find_by_creation_key_in_tx(&mut session, "order-1").await;
    assert_eq!(by_key.unwrap(), Some(first.account_id));
    let other = accounts::find_by_external_id(pool, "Customers/1").await;
    assert_eq!(other.unwrap(), None);
}

async fn names(pool: &PgPool, filter: AccountFilter<'_>, after: Option<AccountId>) -> Vec<String> {
    let listed = accounts::list(pool, &filter, after, 10).await.unwrap();
    listed.into_iter().map(|it| it.account.name).collect()
}

#[tokio::test]
async fn list_has_accounts_that_match_every_filter() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let mut ids = Vec::new();
    for (name, external_id) in [
        ("\u{d6}lm\u{fc}hle 100%", Some("north/1")),
        ("Bakery", Some("north/2")),
        ("Mill and bakery", None),
    ] {
        let mut account = account(name, external_id);
        if name == "Bakery" {
            account.status = AccountStatus::Suspended {
                stop_redirects: false,
            };
        }
        create(pool, &account, None).await.unwrap();
        ids.push(account.account_id);
    }
    let q = |q| AccountFilter {
        q: Some(q),
        ..AccountFilter::default()
    };
    for (text, found) in [
        ("BAKERY", &["Bakery", "Mill and bakery"][..]),
        ("North/", &["\u{d6}lm\u{fc}hle 100%", "Bakery"]),
        ("LM\u{fc}HLE 1", &["\u{d6}lm\u{fc}hle 100%"]),
        ("0%", &["\u{d6}lm\u{fc}hle 100%"]),
        ("d", &["Mill and bakery"]),
        // The end of a name and the beginning of an external id are no text.
        ("y n", &[]),
        ("ba_ery", &[]),
    ] {
        assert_eq!(names(pool, q(text), None).await, found, "{text}");
    }
    let suspended = AccountFilter {
        state: Some(AccountState::Suspended),
        ..q("bakery")
    };
    assert_eq!(names(pool, suspended, None).await, ["Bakery"]);
    let with_id = AccountFilter {
        external_id: Some("north/2"),
        ..AccountFilter::default()
    };
    assert_eq!(names(pool, with_id, None).await, ["Bakery"]);
    let rest = names(pool, AccountFilter::default(), Some(ids[0])).await;
    assert_eq!(rest, ["Bakery", "Mill and bakery"]);
}

/// Returns the numbers of scans of the index of names, and of entries read from the primary key.
async fn reads(database: &TestDatabase) -> (i64, i64) {
    testing::flush_statistics(database.pool()).await;
    let reads = "SELECT (SELECT idx_scan FROM pg_stat_user_indexes
                         WHERE indexrelname = 'accounts_search_idx'),
                        (SELECT idx_tup_read FROM pg_stat_user_indexes
                         WHERE indexrelname = 'accounts_pkey')";
    sqlx::query_as(reads)
        .fetch_one(database.pool())
        .await
        .unwrap()
}

#[tokio::test]
async fn part_of_a_name_is_found_by_its_index() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let fill = "INSERT INTO event_store.accounts (account_id, shard, name, created_at)
                SELECT gen_random_uuid(), 0, 'customer ' || md5(n::text), now()
                FROM generate_series(1, $1) AS n";
    sqlx::query(fill).bind(MANY).execute(pool).await.unwrap();
    let analyze = sqlx::query("ANALYZE event_store.accounts");
    analyze.execute(pool).await.unwrap();
    let wanted = account("The needle", None);
    create(pool, &wanted, None).await.unwrap();

    let before = reads(&database).await;
    let needle = AccountFilter {
        q: Some("NEEDLE"),
        ..AccountFilter::default()
    };
    assert_eq!(names(pool, needle, None).await, ["The needle"]);
    let searched = reads(&database).await;
    assert_eq!(searched.0 - before.0, 1);
    assert!(searched.1 - before.1 < ENTRIES_MAX, "{searched:?}");

    // Nearly every account matches: those of a page are read in order.
    let common = AccountFilter {
        q: Some("customer"),
        ..AccountFilter::default()
    };
    assert_eq!(names(pool, common, None).await.len(), 10);
    let listed = reads(&database).await;
    assert_eq!(listed.0, searched.0);
    assert!(listed.1 - searched.1 < ENTRIES_MAX, "{listed:?}");
}
