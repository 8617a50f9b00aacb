//! Rights of each role: `deploy/postgres/rights` lists all rights, one file per role, so that a review shows each new table,
//! function or grant. Sessions of each role also try forbidden statements.

mod dispatcher;

use std::{env, fs, path::PathBuf};

use linkledger_event_store::{
    migrations::{self, Schema},
    transaction::PoolTransaction,
};
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use sqlx::{AssertSqlSafe, ConnectOptions as _, PgConnection, postgres::PgConnectOptions};
use tokio::sync::OnceCell;

use crate::append_only::{CHANGES, ROLES, database_with_a_link, sqlstate};

const REWRITE: &str = "REWRITE_RIGHTS";
const MATRIX: &str = include_str!("rights/matrix.sql");

const OWNER: &str = "linkledger_owner";
const PROCESSES: [&str; 6] = [
    "linkledger_command_api",
    "linkledger_relay",
    "linkledger_projector",
    "linkledger_query_api",
    "linkledger_webhooks",
    "linkledger_operator",
];

const DENIED: &str = "42501";

/// Statements that every process is denied, in addition to all changes of the log.
const DENIED_TO_ALL: [&str; 30] = [
    "DO 'BEGIN LOCK TABLE event_store.events; END'",
    "ALTER TABLE event_store.events DISABLE TRIGGER ALL",
    "SET session_replication_role = replica",
    "DROP TABLE event_store.events",
    "DELETE FROM event_store.accounts",
    "DELETE FROM event_store.api_keys",
    "DELETE FROM event_store.admin_keys",
    "DELETE FROM event_store.relay_cursors",
    "TRUNCATE read_model.links",
    "DELETE FROM read_model.operations",
    "TRUNCATE clicks.link_days",
    "TRUNCATE clicks.positions",
    "UPDATE event_store._sqlx_migrations SET success = true",
    "CREATE TABLE event_store.x ()",
    "CREATE TABLE read_model.x ()",
    "CREATE TABLE clicks.x ()",
    "CREATE TABLE public.x ()",
    "CREATE TEMPORARY TABLE x ()",
    "CREATE FUNCTION public.x() RETURNS void LANGUAGE sql AS ''",
    "CREATE SCHEMA x",
    "CREATE PUBLICATION x",
    "CREATE ROLE x",
    "CREATE DATABASE x",
    "SET ROLE linkledger_owner",
    "SET SESSION AUTHORIZATION linkledger_owner",
    "ALTER SYSTEM SET fsync = off",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY (SELECT 1) TO '/tmp/x'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT FROM pg_authid",
];

#[rustfmt::skip]
const DENIED_TO_ONE: &[(&str, &str)] = &[
    ("linkledger_command_api", "SELECT FROM read_model.links"),
    ("linkledger_command_api", "UPDATE event_store.accounts SET created_at = now()"),
    ("linkledger_command_api", "UPDATE event_store.accounts SET creation_key = 'x'"),
    ("linkledger_command_api", "SELECT FROM event_store.relay_cursors"),
    ("linkledger_command_api", "UPDATE event_store.api_keys SET sha256 = ''"),
    ("linkledger_command_api", "INSERT INTO event_store.admin_keys (key_id) VALUES (gen_random_uuid())"),
    ("linkledger_command_api", "UPDATE event_store.admin_keys SET scopes = '{}'"),
    ("linkledger_command_api", "UPDATE event_store.console_sessions SET scopes = '{}'"),
    ("linkledger_query_api", "SELECT FROM event_store.console_sessions"),
    ("linkledger_operator", "DELETE FROM event_store.console_sessions"),
    ("linkledger_relay", "SELECT FROM event_store.accounts"),
    ("linkledger_relay", "SELECT FROM event_store.api_keys"),
    ("linkledger_relay", "UPDATE event_store.log_shards SET head = head"),
    ("linkledger_projector", "SELECT FROM event_store.accounts"),
    ("linkledger_projector", "UPDATE event_store.admin_keys SET revoked_at = NULL"),
    ("linkledger_projector", "UPDATE read_model.operations SET detail = 'x'"),
    ("linkledger_projector", "SELECT FROM event_store.api_keys"),
    ("linkledger_projector", "UPDATE read_model.projections SET active_generation = 2"),
    ("linkledger_query_api", "SELECT idempotency_key FROM event_store.events"),
    ("linkledger_query_api", "SELECT creation_key FROM event_store.accounts"),
    ("linkledger_query_api", "UPDATE event_store.admin_keys SET revoked_at = NULL"),
    ("linkledger_query_api", "UPDATE read_model.links SET slug = slug"),
    ("linkledger_query_api", "DELETE FROM read_model.redirects"),
    ("linkledger_query_api", "DELETE FROM clicks.recorders"),
    ("linkledger_query_api", "UPDATE clicks.salts SET salt = salt"),
    ("linkledger_query_api", "DELETE FROM clicks.link_days"),
    ("linkledger_query_api", "UPDATE event_store.api_keys SET revoked_at = NULL"),
    ("linkledger_command_api", "SELECT FROM clicks.link_days"),
    ("linkledger_command_api", "UPDATE clicks.first_clicks SET clicked_at = now()"),
    ("linkledger_command_api", "DELETE FROM clicks.first_clicks"),
    ("linkledger_command_api", "UPDATE clicks.link_minutes SET clicks = 9"),
    ("linkledger_projector", "DELETE FROM clicks.link_days"),
    ("linkledger_operator", "UPDATE clicks.positions SET next_offset = 0"),
    ("linkledger_query_api", "UPDATE clicks.link_days SET clicks = 9"),
    ("linkledger_query_api", "DELETE FROM clicks.salts"),
    ("linkledger_operator", "SELECT FROM clicks.salts"),
    ("linkledger_query_api", "UPDATE event_store.api_keys SET scopes = '{}'"),
    ("linkledger_operator", "UPDATE event_store.admin_keys SET scopes = '{}'"),
    ("linkledger_operator", "UPDATE event_store.slugs SET link_id = link_id"),
    ("linkledger_operator", "UPDATE read_model.skipped_events SET reason = 'x'"),
    ("linkledger_command_api", "UPDATE event_store.webhooks SET account_id = account_id"),
    ("linkledger_command_api", "UPDATE event_store.webhook_cursors SET position = 0"),
    ("linkledger_command_api", "DELETE FROM event_store.webhook_deliveries"),
    ("linkledger_command_api", "SELECT FROM event_store.webhook_dispatcher"),
    ("linkledger_projector", "SELECT url FROM event_store.webhooks"),
    ("linkledger_query_api", "UPDATE event_store.webhooks SET enabled = true"),
    ("linkledger_query_api", "UPDATE event_store.webhook_deliveries SET state = 'failed'"),
    ("linkledger_operator", "DELETE FROM event_store.webhooks"),
    ("linkledger_webhooks", "UPDATE event_store.webhooks SET url = url"),
    ("linkledger_webhooks", "UPDATE event_store.webhooks SET secret_generation = 1"),
    ("linkledger_webhooks", "DELETE FROM event_store.webhooks"),
    ("linkledger_webhooks", "INSERT INTO event_store.webhook_cursors (webhook_id) VALUES (gen_random_uuid())"),
    ("linkledger_webhooks", "UPDATE event_store.accounts SET status = 'active'"),
    ("linkledger_webhooks", "SELECT FROM event_store.api_keys"),
    ("linkledger_webhooks", "SELECT FROM event_store.admin_keys"),
    ("linkledger_webhooks", "SELECT record_key FROM event_store.log_meta"),
    ("linkledger_webhooks", "SELECT FROM read_model.links"),
    ("linkledger_webhooks", "SELECT FROM clicks.link_days"),
];

/// Lets the roles log in, once for all tests: roles belong to the whole server.
async fn allow_logins(database: &TestDatabase) {
    static ALLOWED: OnceCell<()> = OnceCell::const_new();
    let allow = async || {
        for role in PROCESSES.iter().chain([&OWNER]) {
            execute(
                database,
                &format!("ALTER ROLE {role} LOGIN PASSWORD '{role}'"),
            )
            .await;
        }
    };
    ALLOWED.get_or_init(allow).await;
}

async fn execute(database: &TestDatabase, statements: &str) {
    let statements = AssertSqlSafe(statements.to_owned());
    let executed = sqlx::raw_sql(statements).execute(database.pool());
    executed.await.unwrap();
}

/// Creates a database with the roles, their rights, and a user for each role.
async fn database_with_roles() -> TestDatabase {
    let database = database_with_a_link().await;
    execute(&database, ROLES).await;
    allow_logins(&database).await;
    database
}

async fn log_in(database: &TestDatabase, role: &str) -> PgConnection {
    as_user(database, role).connect().await.unwrap()
}

fn as_user(database: &TestDatabase, role: &str) -> PgConnectOptions {
    let options: PgConnectOptions = database.url().parse().unwrap();
    options.username(role).password(role)
}

/// Returns the rights of the role from the catalogue of Postgres, one object per line.
async fn rights_of(database: &TestDatabase, role: &str) -> String {
    let lines = sqlx::query_scalar::<_, String>(MATRIX).bind(role);
    let lines = lines.fetch_all(database.pool()).await.unwrap();
    format!("{role}\n{}\n", lines.join("\n"))
}

#[tokio::test]
async fn roles_have_exactly_the_committed_rights() {
    let database = database_with_roles().await;
    // The script revokes every right that the script does not grant.
    let everybody = PROCESSES.join(", ");
    for granted in ["ALL TABLES IN", "ALL FUNCTIONS IN", ""] {
        let schemas = format!("{granted} SCHEMA event_store, read_model, clicks");
        let grant = format!("GRANT ALL ON {schemas} TO PUBLIC, {everybody}");
        execute(&database, &grant).await;
    }
    execute(&database, ROLES).await;
    for role in PROCESSES {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/postgres/rights");
        let file: PathBuf = [folder, &format!("{role}.txt")].iter().collect();
        let rights = rights_of(&database, role).await;
        if env::var_os(REWRITE).is_some() {
            fs::write(&file, &rights).unwrap();
        }
        assert!(
            fs::read_to_string(&file).unwrap_or_default() == rights,
            "{role} may do something else than {file:?} says; rewrite it and read the difference:\n\
             {REWRITE}=1 cargo test -p linkledger-command-api --test api rights && git diff deploy"
        );
    }
}

#[tokio::test]
async fn process_roles_cannot_change_log_or_escalate() {
    let database = database_with_roles().await;
    for role in PROCESSES {
        let mut session = log_in(&database, role).await;
        let own = DENIED_TO_ONE.iter().filter(|(whose, _)| *whose == role);
        let own = own.map(|(_, statement)| *statement);
        for statement in CHANGES.into_iter().chain(DENIED_TO_ALL).chain(own) {
            let refused = sqlstate(&mut session, statement).await;
            assert_eq!(refused.as_deref(), Some(DENIED), "{role}: {statement}");
        }
        for other in PROCESSES.iter().filter(|it| **it != role) {
            let refused = sqlstate(&mut session, &format!("SET ROLE {other}")).await;
            assert_eq!(refused.as_deref(), Some(DENIED), "{role} as {other}");
        }
    }
}

#[tokio::test]
async fn process_sessions_have_lock_timeouts() {
    let database = database_with_roles().await;
    let mut holder = PoolTransaction::begin(database.pool()).await.unwrap();
    let lock = "SELECT FROM event_store.accounts FOR UPDATE";
    sqlx::query(lock).execute(&mut *holder).await.unwrap();
    let mut waiter = log_in(&database, "linkledger_command_api").await;
    let update = "UPDATE event_store.accounts SET version = version";
    assert_eq!(
        sqlstate(&mut waiter, update).await.as_deref(),
        Some("55P03")
    );

    let mut idle = log_in(&database, "linkledger_projector").await;
    assert_eq!(sqlstate(&mut idle, "BEGIN").await, None);
    testing::eventually("the server ends the session", async || {
        let idle = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'linkledger_projector'
            AND datname = current_database()";
        let sessions: i64 = sqlx::query_scalar(idle)
            .fetch_one(database.pool())
            .await
            .unwrap();
        (sessions == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn owner_needs_no_superuser() {
    let server = database_with_roles().await;
    execute(&server, "CREATE DATABASE owned OWNER linkledger_owner").await;
    let log_in = async |role| {
        let options = as_user(&server, role).database("owned");
        options.connect().await.unwrap()
    };
    let pool = sqlx::PgPool::connect_lazy_with(as_user(&server, OWNER).database("owned"));
    migrations::run(&pool, &Schema::ALL).await.unwrap();
    // The roles exist. Only a superuser may set their time limits, and the script says so.
    sqlx::raw_sql(ROLES).execute(&pool).await.unwrap();

    let mut operator = log_in("linkledger_operator").await;
    for allowed in [
        "SELECT read_model.create_generation('links', 2, 1)",
        "SELECT read_model.drop_generation('links', 2)",
    ] {
        assert_eq!(sqlstate(&mut operator, allowed).await, None, "{allowed}");
    }
    let mut projector = log_in("linkledger_projector").await;
    for allowed in [
        "SELECT clicks.create_partitions(current_date)",
        "SELECT clicks.drop_expired_partition()",
    ] {
        assert_eq!(sqlstate(&mut projector, allowed).await, None, "{allowed}");
    }
    let mut owner = log_in(OWNER).await;
    for denied in [
        "SET session_replication_role = replica",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "CREATE ROLE x",
        "CREATE DATABASE x",
    ] {
        let refused = sqlstate(&mut owner, denied).await;
        assert_eq!(refused.as_deref(), Some(DENIED), "{denied}");
    }
    let truncated = sqlstate(&mut owner, "TRUNCATE event_store.events").await;
    assert_eq!(truncated.as_deref(), Some("23001"));
}
