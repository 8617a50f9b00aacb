//! The log can't be changed: not by its owner (triggers), and not by a service (GRANTs).

use linkledger_command_api::relay::cursor::{LeaseTable, Reached};
use linkledger_core::{
    event_store::{self, SessionKind},
    shard::Shard,
    testing::{self, TestDatabase},
};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, postgres::PgPoolOptions};

const ROLES: &str = include_str!("../../../deploy/postgres/roles.sql");

const CHANGES: [&str; 6] = [
    "UPDATE event_store.events SET payload = '{}'",
    "DELETE FROM event_store.events",
    "TRUNCATE event_store.events",
    "UPDATE event_store.log_segments SET sha256 = sha256(sha256)",
    "DELETE FROM event_store.log_segments",
    "TRUNCATE event_store.log_segments",
];

const DONE: &str = "done";
const DENIED: &str = "42501";

const COMMAND_API: &str = "linkledger_command_api";
const PROJECTOR: &str = "linkledger_projector";
const QUERY_API: &str = "linkledger_query_api";
const OPERATOR: &str = "linkledger_operator";

const INSERT_EVENT: &str = "INSERT INTO event_store.events VALUES
    (0, 99, gen_random_uuid(), 1, gen_random_uuid(), gen_random_uuid(), 'X', 1, '{}', '{}', now())";
const INSERT_SEGMENT: &str = "INSERT INTO event_store.log_segments
    SELECT 0, count(*) + 1, 1, 10, 1, sha256(''), now() FROM event_store.log_segments";
const INSERT_SLUG: &str =
    "INSERT INTO event_store.slugs VALUES ('new', 'New', 0, gen_random_uuid())";
const INSERT_ACCOUNT: &str =
    "INSERT INTO event_store.accounts VALUES (gen_random_uuid(), 0, 'X', 9, 0, 'active', now())";
const INSERT_KEY: &str = "INSERT INTO event_store.api_keys
    SELECT gen_random_uuid(), account_id, 'hash', 'lnk_', 'X', '{}', now()
    FROM event_store.accounts";
const INSERT_LINK: &str = "INSERT INTO read_model.links
    VALUES (1, gen_random_uuid(), gen_random_uuid(), 'x', 'https://e.com/', 1, now())";
const INSERT_STOPPED_ACCOUNT: &str =
    "INSERT INTO read_model.stopped_accounts VALUES (1, gen_random_uuid())";
const INSERT_REDIRECT_CHANGE: &str =
    "INSERT INTO read_model.redirect_changes VALUES (1, 'x', NULL, now())";
const INSERT_PARKED_ACCOUNT: &str = "INSERT INTO read_model.parked_accounts
    VALUES ('links', 1, 0, gen_random_uuid(), 1, 'X', 'unknown_event', 'x')";
const INSERT_PARKED_EVENT: &str =
    "INSERT INTO read_model.parked_events VALUES ('links', 1, 0, 1, gen_random_uuid())";
const INSERT_PRODUCER: &str = "INSERT INTO event_store.relay_producers VALUES ('x', now())";
const INSERT_PROJECTION: &str = "INSERT INTO read_model.projections VALUES ('x', 1)";
const INSERT_CHECKPOINT: &str =
    "INSERT INTO read_model.checkpoints VALUES ('links', 2, 0, 1, 0, 'live')";

#[rustfmt::skip]
const ALLOWED_AND_DENIED: &[(&str, &str, &str)] = &[
    (COMMAND_API, "SELECT FROM event_store.events", DONE),
    (COMMAND_API, INSERT_EVENT, DONE),
    (COMMAND_API, CHANGES[0], DENIED),
    (COMMAND_API, CHANGES[1], DENIED),
    (COMMAND_API, CHANGES[2], DENIED),
    (COMMAND_API, "SELECT FROM event_store.log_segments", DONE),
    (COMMAND_API, INSERT_SEGMENT, DONE),
    (COMMAND_API, CHANGES[3], DENIED),
    (COMMAND_API, CHANGES[4], DENIED),
    (COMMAND_API, CHANGES[5], DENIED),
    (COMMAND_API, "UPDATE event_store.log_shards SET head = head", DONE),
    (COMMAND_API, "UPDATE event_store.log_shards SET shard = shard", DENIED),
    (COMMAND_API, "INSERT INTO event_store.log_shards VALUES (15)", DENIED),
    (COMMAND_API, "UPDATE event_store.log_meta SET epoch = 2", DENIED),
    (COMMAND_API, "UPDATE event_store.relay_cursors SET position = 1, owner = 'x'", DONE),
    (COMMAND_API, "UPDATE event_store.relay_cursors SET epoch = 2", DENIED),
    (COMMAND_API, "UPDATE event_store.relay_cursors SET paused_at = now()", DENIED),
    (COMMAND_API, "DELETE FROM event_store.relay_cursors", DENIED),
    (COMMAND_API, INSERT_PRODUCER, DONE),
    (COMMAND_API, "UPDATE event_store.relay_producers SET settles_at = now()", DONE),
    (COMMAND_API, "DELETE FROM event_store.relay_producers", DONE),
    (PROJECTOR, "SELECT FROM event_store.relay_producers", DENIED),
    (COMMAND_API, INSERT_SLUG, DONE),
    (COMMAND_API, "UPDATE event_store.slugs SET link_id = link_id", DONE),
    (COMMAND_API, "UPDATE event_store.slugs SET slug_folded = 'x'", DENIED),
    (COMMAND_API, "DELETE FROM event_store.slugs", DONE),
    (COMMAND_API, "DROP TABLE event_store.slugs", DENIED),
    (COMMAND_API, "UPDATE event_store.accounts SET balance = 9, version = 9", DONE),
    (COMMAND_API, "UPDATE event_store.accounts SET status = 'active'", DENIED),
    (COMMAND_API, "UPDATE event_store.accounts SET redirects_stopped = false", DENIED),
    (COMMAND_API, INSERT_ACCOUNT, DENIED),
    (COMMAND_API, "DELETE FROM event_store.accounts", DENIED),
    (COMMAND_API, INSERT_KEY, DENIED),
    (COMMAND_API, "UPDATE event_store.api_keys SET revoked_at = NULL", DENIED),
    (COMMAND_API, "UPDATE event_store.api_keys SET last_used_at = now()", DONE),
    (COMMAND_API, "UPDATE event_store.api_keys SET expires_at = NULL", DENIED),
    (COMMAND_API, "SELECT FROM read_model.links", DENIED),
    (COMMAND_API, "UPDATE read_model.links SET slug = slug", DENIED),
    (PROJECTOR, "SELECT FROM event_store.events", DONE),
    (PROJECTOR, INSERT_EVENT, DENIED),
    (PROJECTOR, "DELETE FROM event_store.events", DENIED),
    (PROJECTOR, INSERT_SEGMENT, DENIED),
    (PROJECTOR, "UPDATE event_store.log_shards SET head = head", DENIED),
    (PROJECTOR, "UPDATE event_store.accounts SET balance = 9", DENIED),
    (PROJECTOR, "SELECT FROM event_store.api_keys", DENIED),
    (PROJECTOR, "UPDATE event_store.api_keys SET last_used_at = now()", DENIED),
    (PROJECTOR, INSERT_LINK, DONE),
    (PROJECTOR, "UPDATE read_model.links SET slug = slug", DONE),
    (PROJECTOR, "DELETE FROM read_model.links", DONE),
    (PROJECTOR, "TRUNCATE read_model.links", DENIED),
    (PROJECTOR, INSERT_STOPPED_ACCOUNT, DONE),
    (PROJECTOR, "DELETE FROM read_model.stopped_accounts", DONE),
    (PROJECTOR, INSERT_REDIRECT_CHANGE, DONE),
    (PROJECTOR, "UPDATE read_model.redirect_changes SET number = 2", DENIED),
    (PROJECTOR, "DELETE FROM read_model.redirect_changes", DONE),
    (PROJECTOR, "UPDATE read_model.redirect_change_counter SET last_number = 1", DONE),
    (PROJECTOR, "DELETE FROM read_model.redirect_change_counter", DENIED),
    (PROJECTOR, INSERT_PARKED_ACCOUNT, DONE),
    (PROJECTOR, "UPDATE read_model.parked_accounts SET reason = 'refused_row'", DONE),
    (PROJECTOR, "UPDATE read_model.parked_accounts SET account_id = account_id", DENIED),
    (PROJECTOR, "DELETE FROM read_model.parked_accounts", DONE),
    (PROJECTOR, INSERT_PARKED_EVENT, DONE),
    (PROJECTOR, "UPDATE read_model.parked_events SET position = 2", DENIED),
    (PROJECTOR, "DELETE FROM read_model.parked_events", DONE),
    (PROJECTOR, "DELETE FROM read_model.redirects", DENIED),
    (PROJECTOR, "DELETE FROM read_model.credit_balances", DENIED),
    (PROJECTOR, "DELETE FROM read_model.credit_entries", DENIED),
    (PROJECTOR, "UPDATE read_model.checkpoints SET position = position", DONE),
    (PROJECTOR, "UPDATE read_model.checkpoints SET role = 'live'", DENIED),
    (PROJECTOR, INSERT_CHECKPOINT, DENIED),
    (PROJECTOR, "DELETE FROM read_model.checkpoints", DENIED),
    (PROJECTOR, "UPDATE read_model.projections SET active_generation = 2", DENIED),
    (PROJECTOR, INSERT_PROJECTION, DENIED),
    (PROJECTOR, "UPDATE read_model._sqlx_migrations SET success = true", DENIED),
    (QUERY_API, "SELECT FROM read_model.links", DONE),
    (QUERY_API, "SELECT FROM read_model.stopped_accounts", DONE),
    (QUERY_API, "SELECT FROM read_model.redirect_changes", DONE),
    (QUERY_API, "SELECT FROM read_model.parked_accounts", DONE),
    (QUERY_API, "DELETE FROM read_model.parked_accounts", DENIED),
    (QUERY_API, INSERT_LINK, DENIED),
    (QUERY_API, "UPDATE read_model.links SET slug = slug", DENIED),
    (QUERY_API, "SELECT payload FROM event_store.events", DENIED),
    (QUERY_API, "SELECT position, type FROM event_store.events", DONE),
    (QUERY_API, "SELECT balance FROM event_store.accounts", DENIED),
    (QUERY_API, "SELECT status FROM event_store.accounts", DONE),
    (QUERY_API, "SELECT name FROM event_store.api_keys", DENIED),
    (QUERY_API, "UPDATE event_store.api_keys SET last_used_at = now()", DONE),
    (QUERY_API, "UPDATE event_store.api_keys SET revoked_at = NULL", DENIED),
    (QUERY_API, "UPDATE event_store.api_keys SET scopes = '{}'", DENIED),
    (QUERY_API, "DELETE FROM event_store.api_keys", DENIED),
    (QUERY_API, INSERT_EVENT, DENIED),
    (QUERY_API, "DELETE FROM event_store.events", DENIED),
    (OPERATOR, "SELECT FROM event_store.events", DONE),
    (OPERATOR, INSERT_EVENT, DONE),
    (OPERATOR, "DELETE FROM event_store.events", DENIED),
    (OPERATOR, "SELECT FROM event_store.log_segments", DONE),
    (OPERATOR, INSERT_SEGMENT, DENIED),
    (OPERATOR, CHANGES[4], DENIED),
    (OPERATOR, INSERT_ACCOUNT, DONE),
    (OPERATOR, "UPDATE event_store.accounts SET status = 'suspended', redirects_stopped = true", DONE),
    (OPERATOR, "UPDATE event_store.accounts SET shard = 0", DENIED),
    (OPERATOR, "DELETE FROM event_store.accounts", DENIED),
    (OPERATOR, INSERT_KEY, DONE),
    (OPERATOR, "UPDATE event_store.api_keys SET revoked_at = now()", DONE),
    (OPERATOR, "UPDATE event_store.api_keys SET scopes = '{}'", DENIED),
    (OPERATOR, "DELETE FROM event_store.api_keys", DENIED),
    (OPERATOR, "SELECT link_id FROM event_store.slugs WHERE slug_folded = 'x'", DONE),
    (OPERATOR, INSERT_SLUG, DENIED),
    (OPERATOR, "UPDATE event_store.relay_cursors SET position = 0, paused_at = now()", DONE),
    (OPERATOR, "DELETE FROM event_store.relay_cursors", DENIED),
    (OPERATOR, INSERT_PRODUCER, DENIED),
    (OPERATOR, "DELETE FROM event_store.relay_producers", DONE),
    (OPERATOR, "UPDATE read_model.links SET slug = slug", DENIED),
];

/// With a sealed segment too, since a trigger on rows needs a row to speak.
async fn database_with_a_link() -> TestDatabase {
    let database = TestDatabase::create().await;
    sqlx::raw_sql(INSERT_SEGMENT)
        .execute(database.pool())
        .await
        .unwrap();
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
        Ok(_) => DONE.to_owned(),
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
    // What the script does not grant it takes away.
    sqlx::raw_sql(ROLES).execute(&mut session).await.unwrap();
    sqlx::raw_sql("GRANT ALL ON ALL TABLES IN SCHEMA event_store TO linkledger_query_api")
        .execute(&mut session)
        .await
        .unwrap();
    sqlx::raw_sql(ROLES).execute(&mut session).await.unwrap();
    for &(role, statement, expected) in ALLOWED_AND_DENIED {
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

/// Sessions with the rights of that role.
fn pool_of(database: &TestDatabase, role: &str) -> PgPool {
    let options = event_store::session_options(database.url(), SessionKind::Writer).unwrap();
    PgPoolOptions::new().connect_lazy_with(options.options([("role", role)]))
}

// All processes under their roles: `three_processes_share_a_database_and_a_broker`.
#[tokio::test]
async fn the_grants_suffice_to_append_and_to_relay() {
    let database = TestDatabase::create().await;
    sqlx::raw_sql(ROLES).execute(database.pool()).await.unwrap();
    let account_id = testing::account(database.pool(), 10).await;
    let pool = pool_of(&database, COMMAND_API);

    let links = [("spring", "https://e.com/1"), ("summer", "https://e.com/2")];
    let appended = testing::append_links(&pool, account_id, &links).await;
    assert_eq!(appended.len(), 2);

    let leases = LeaseTable::new(pool.clone(), "test".to_owned());
    let held = leases
        .acquire(&[Shard::of(account_id)], true)
        .await
        .unwrap();
    let held: Vec<_> = held.into_iter().map(|(lease, _)| lease).collect();
    assert_eq!(leases.renew(&held).await.unwrap().kept.len(), 1);
    let reached = Reached {
        position: appended[1].position,
        offset: Some(1),
    };
    let moved = [(held[0], reached)];
    leases.store(&moved).await.unwrap();
    leases.bind(&moved, Some("cluster")).await.unwrap();
    leases.note_refusal("on purpose").await.unwrap();
    leases.note_topic_lost(held[0]).await.unwrap();
    leases.release(&held).await.unwrap();
    let role: String = sqlx::query_scalar("SELECT current_user::text")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(role, COMMAND_API);
}
