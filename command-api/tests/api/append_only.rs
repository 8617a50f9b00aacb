//! The log can't be changed: not by its owner (triggers), and not by a service (GRANTs).

use linkledger_core::testing::{self, TestDatabase};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

const ROLES: &str = include_str!("../../../deploy/postgres/roles.sql");

const CHANGES: [&str; 4] = [
    "UPDATE event_store.events SET payload = '{}'",
    "DELETE FROM event_store.events",
    "TRUNCATE event_store.events",
    "TRUNCATE event_store.events_00",
];

const DONE: &str = "done";
const DENIED: &str = "42501";

#[rustfmt::skip]
const ALLOWED_AND_DENIED: [(&str, &str, &str); 20] = [
        ("linkledger_command_api", "SELECT FROM event_store.events", DONE),
        ("linkledger_command_api", CHANGES[0], DENIED),
        ("linkledger_command_api", CHANGES[1], DENIED),
        ("linkledger_command_api", CHANGES[2], DENIED),
        ("linkledger_command_api", "UPDATE event_store.log_shards SET head = head", DONE),
        ("linkledger_command_api", "DELETE FROM event_store.accounts", DENIED),
        ("linkledger_command_api", "UPDATE read_model.links SET slug = slug", DENIED),
        ("linkledger_command_api", "DROP TABLE event_store.slugs", DENIED),
        ("linkledger_projector", "SELECT FROM event_store.events", DONE),
        ("linkledger_projector", "UPDATE event_store.accounts SET balance = 9", DENIED),
        ("linkledger_projector", "DELETE FROM event_store.events", DENIED),
        ("linkledger_projector", "UPDATE read_model.links SET slug = slug", DONE),
        ("linkledger_query_api", "SELECT FROM read_model.links", DONE),
        ("linkledger_query_api", "UPDATE read_model.links SET slug = slug", DENIED),
        ("linkledger_query_api", "SELECT balance FROM event_store.accounts", DENIED),
        ("linkledger_query_api", "SELECT status FROM event_store.accounts", DONE),
        ("linkledger_query_api", "DELETE FROM event_store.events", DENIED),
        ("linkledger_operator", "SELECT FROM event_store.events", DONE),
        ("linkledger_operator", "UPDATE event_store.api_keys SET revoked_at = now()", DONE),
        ("linkledger_operator", "DELETE FROM event_store.events", DENIED),
];

async fn database_with_a_link() -> TestDatabase {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 10).await;
    testing::append_links(
        database.pool(),
        account_id,
        &[("spring", "https://example.com")],
    )
    .await;
    database
}

async fn sqlstate(connection: &mut PgConnection, statement: &str) -> String {
    let result = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
        .execute(connection)
        .await;
    match result {
        Ok(_) => "done".to_owned(),
        Err(error) => error
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code)
            .unwrap()
            .into_owned(),
    }
}

#[tokio::test]
async fn not_even_the_owner_changes_the_log() {
    let database = database_with_a_link().await;
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    for change in CHANGES {
        assert_eq!(sqlstate(&mut owner, change).await, "23001", "{change}");
    }
}

#[tokio::test]
async fn the_balance_is_never_negative() {
    let database = database_with_a_link().await;
    let mut owner = PgConnection::connect(database.url()).await.unwrap();
    let statement = "UPDATE event_store.accounts SET balance = -1";
    assert_eq!(sqlstate(&mut owner, statement).await, "23514");
}

#[tokio::test]
async fn each_role_can_do_its_work_and_no_more() {
    let database = database_with_a_link().await;
    let mut session = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql(ROLES).execute(&mut session).await.unwrap();
    // Twice: the script is safe to repeat.
    sqlx::raw_sql(ROLES).execute(&mut session).await.unwrap();
    for (role, statement, expected) in ALLOWED_AND_DENIED {
        sqlx::raw_sql(AssertSqlSafe(format!("BEGIN; SET LOCAL ROLE {role}")))
            .execute(&mut session)
            .await
            .unwrap();
        assert_eq!(
            sqlstate(&mut session, statement).await,
            expected,
            "{role}: {statement}"
        );
        sqlx::raw_sql("ROLLBACK")
            .execute(&mut session)
            .await
            .unwrap();
    }
}
