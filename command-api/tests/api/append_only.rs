//! The log cannot be changed by its owner (triggers) or by a service (GRANTs).

use linkledger_command_api::relay::lease::{AcknowledgedPosition, LeaseTable, Renewal};
use linkledger_core::shard::Shard;
use linkledger_event_store::SessionKind;
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, postgres::PgPoolOptions};

pub(crate) const ROLES: &str = include_str!("../../../deploy/postgres/roles.sql");

pub(crate) const CHANGES: [&str; 9] = [
    "UPDATE event_store.events SET payload = '{}'",
    "DELETE FROM event_store.events",
    "TRUNCATE event_store.events",
    "UPDATE event_store.log_segments SET sha256 = sha256(sha256)",
    "DELETE FROM event_store.log_segments",
    "TRUNCATE event_store.log_segments",
    "UPDATE event_store.log_epochs SET reason = 'x'",
    "DELETE FROM event_store.log_epochs",
    "TRUNCATE event_store.log_epochs",
];

const COMMAND_API: &str = "linkledger_command_api";
const RELAY: &str = "linkledger_relay";
pub(crate) const OPERATOR: &str = "linkledger_operator";

const INSERT_SEGMENT: &str = "INSERT INTO event_store.log_segments
    SELECT 0, count(*) + 1, 1, 10, 1, sha256('') FROM event_store.log_segments";
const INSERT_EPOCH: &str =
    "INSERT INTO event_store.log_epochs VALUES (2, 1, now(), 'ada', 'restored', '{}')";

/// Creates a store with a sealed segment and a raised epoch: triggers on rows need rows to fire.
pub(crate) async fn database_with_a_link() -> TestDatabase {
    let database = TestDatabase::create().await;
    for insert in [INSERT_SEGMENT, INSERT_EPOCH] {
        let inserted = sqlx::raw_sql(insert).execute(database.pool());
        inserted.await.unwrap();
    }
    let account_id = testing::account(database.pool(), 10).await;
    testing::append_links(
        database.pool(),
        account_id,
        &[("spring", "https://example.com")],
    )
    .await;
    database
}

/// Returns the SQLSTATE of the error; `None` on success.
pub(crate) async fn sqlstate(connection: &mut PgConnection, statement: &str) -> Option<String> {
    let statement = AssertSqlSafe(statement.to_owned());
    let outcome = sqlx::raw_sql(statement).execute(connection).await;
    outcome.err().map(|error| {
        let error = error
            .into_database_error()
            .expect("Postgres has refused it");
        error.code().expect("with a code").into_owned()
    })
}

#[tokio::test]
async fn owner_cannot_change_log() {
    let database = database_with_a_link().await;
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    for change in CHANGES {
        let refused = sqlstate(&mut owner, change).await;
        assert_eq!(refused.as_deref(), Some("23001"), "{change}");
    }
}

#[tokio::test]
async fn balance_is_never_negative() {
    let database = database_with_a_link().await;
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    let statement = "UPDATE event_store.accounts SET balance = -1";
    let refused = sqlstate(&mut owner, statement).await;
    assert_eq!(refused.as_deref(), Some("23514"));
}

/// Returns a pool whose sessions have the rights of the role.
pub(crate) fn pool_of(database: &TestDatabase, role: &str) -> PgPool {
    let options =
        linkledger_event_store::session_options(database.url(), SessionKind::Writer).unwrap();
    PgPoolOptions::new().connect_lazy_with(options.options([("role", role)]))
}

// All processes under their roles: `services_run_as_separate_processes`.
#[tokio::test]
async fn grants_suffice_to_append_and_relay() {
    let database = TestDatabase::create().await;
    sqlx::raw_sql(ROLES).execute(database.pool()).await.unwrap();
    let account_id = testing::account(database.pool(), 10).await;
    let pool = pool_of(&database, COMMAND_API);

    let links = [("spring", "https://e.com/1"), ("summer", "https://e.com/2")];
    let appended = testing::append_links(&pool, account_id, &links).await;
    assert_eq!(appended.len(), 2);

    let pool = pool_of(&database, RELAY);
    let leases = LeaseTable::new(pool.clone(), "test".to_owned());
    let (lease, _) = leases.acquire(true).await.unwrap().unwrap();
    assert_eq!(leases.renew(lease).await.unwrap(), Renewal::Kept);
    let acknowledged = AcknowledgedPosition {
        shard: Shard::of(account_id),
        position: appended[1].position,
        offset: Some(1),
    };
    let moved = [acknowledged];
    leases.store(lease, &moved).await.unwrap();
    leases.bind(lease, &moved, Some("cluster")).await.unwrap();
    leases.record_refusal("on purpose").await.unwrap();
    let shard = acknowledged.shard;
    leases.record_topic_lost(lease, shard).await.unwrap();
    leases.release(lease).await.unwrap();
    let role: String = sqlx::query_scalar("SELECT current_user::text")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(role, RELAY);
}
