//! The operator's commands, run as processes.

mod account_commands;
mod credit_commands;
mod key_commands;
mod recorded_authors;

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use linkledger_command_api::admin::{
    Author, Request,
    account::{self, NewAccount},
    credits,
};
use linkledger_core::{api_key::ApiKey, clock::SystemClock, credits::GrantRequest, id::AccountId};
use linkledger_event_store::{
    migrations::{self, Schema},
    transaction::PoolTransaction,
};
use linkledger_testing::TestDatabase;
use serde_json::Value;
use sqlx::PgPool;

use crate::{
    cli::{self, error, json, problem},
    support::{TestApp, create, destination, fresh_key, send},
};

/// Runs the command with the address of the database on its standard input.
fn run_with_address_on_input(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_command-api"))
        .args(arguments)
        .args(["--database-url", "-"])
        .env_remove("DATABASE_URL")
        .env("DATABASE_URL_FILE", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let mut input = command.stdin.take().expect("an input");
    writeln!(input, "{url}").expect("the command reads");
    drop(input);
    command.wait_with_output().expect("the command ends")
}

#[tokio::test]
async fn address_on_input_replaces_that_of_environment() {
    let database = TestDatabase::create().await;
    let arguments = ["account", "create", "--name", "Acme", "--json"];
    let output = run_with_address_on_input(database.url(), &arguments);
    assert!(output.status.success(), "{output:?}");
    let created: Value = serde_json::from_slice(&output.stdout).unwrap();
    let shown = json(database.url(), &["account", "show", text(&created["id"])]);
    assert_eq!(shown["name"], "Acme");
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

/// Returns a request of an operator, without an idempotency key.
fn request(pool: &PgPool) -> Request<'_> {
    let author = Author::Operator(cli::OPERATOR.to_owned());
    Request::new(pool, &SystemClock, &author)
}

/// Creates an account by a function of the commands, and grants credits.
async fn new_account(pool: &PgPool, balance: i64) -> AccountId {
    let new = NewAccount {
        name: "Acme".to_owned(),
        external_id: None,
        low_balance_at: None,
    };
    let account = account::create(&request(pool), &new).await.unwrap();
    let account_id = account.value.id;
    if balance > 0 {
        let grant = GrantRequest {
            amount: balance,
            reason: "test".to_owned(),
            ..GrantRequest::default()
        };
        let granted = credits::grant(&request(pool), account_id, &grant).await;
        assert_eq!(granted.unwrap().value.balance_after, balance);
    }
    account_id
}

/// Returns the payload and the metadata of the events of a type, the oldest first.
async fn events(pool: &PgPool, event_type: &str) -> Vec<(Value, Value)> {
    let rows: Vec<(String, String)> = sqlx::query_as(
        "SELECT payload::text, metadata::text FROM event_store.events
         WHERE type = $1 ORDER BY recorded_at, position",
    )
    .bind(event_type)
    .fetch_all(pool)
    .await
    .unwrap();
    let value = |text: String| serde_json::from_str(&text).unwrap();
    rows.into_iter()
        .map(|(payload, metadata)| (value(payload), value(metadata)))
        .collect()
}

async fn payloads(pool: &PgPool, event_type: &str) -> Vec<Value> {
    let events = events(pool, event_type).await.into_iter();
    events.map(|(payload, _)| payload).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn fresh_database_to_first_link() {
    let app = TestApp::start().await;
    let url = app.database.url();
    json(url, &["migrate"]);
    let account = json(url, &["account", "create", "--name", "Acme"]);
    let account = text(&account["id"]);
    let grant = [
        "credits",
        "grant",
        "--account",
        account,
        "--amount",
        "5",
        "--reason",
        "invoice 7",
    ];
    assert_eq!(json(url, &grant)["balance_after"], 5);
    let issue = [
        "key",
        "issue",
        "--account",
        account,
        "--scope",
        "link:links.write",
    ];
    let issued = json(url, &issue);
    let key = ApiKey::parse(text(&issued["secret"])).unwrap();

    let created = send(&app.router, create(&key, fresh_key(), &destination())).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.json()["credits_balance"], 4);
}

#[tokio::test]
async fn unknown_ids_are_named_in_errors() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let account = "acc_01h455vb4pex5vsknk084sn02q";
    let key = "key_01h455vb4pex5vsknk084sn02q";
    let admin_key = "adm_01h455vb4pex5vsknk084sn02q";
    let no_account = format!("there is no account {account}; check the id");
    let no_key = format!("there is no key {key}; check the id");
    let no_admin_key = format!("there is no admin key {admin_key}; check the id");
    let of_account = ["--account", account];
    let reason = ["--reason", "x"];
    let scope = ["--scope", "link:links.read"];
    let issue = [&["key", "issue"], &of_account[..], &scope].concat();
    let list = [&["key", "list"], &of_account[..]].concat();
    let grant = ["credits", "grant", "--amount", "1"];
    let grant = [&grant, &of_account[..], &reason].concat();
    let rename = [&["account", "change", "--name", "x"], &of_account[..]].concat();
    for (arguments, detail) in [
        (&issue[..], &no_account),
        (&list[..], &no_account),
        (&grant[..], &no_account),
        (&rename[..], &no_account),
        (&["account", "show", account], &no_account),
        (&["key", "revoke", key], &no_key),
        (&["key", "rotate", key], &no_key),
        (&["key", "change", key, "--name", "x"], &no_key),
        (&["admin-key", "revoke", admin_key], &no_admin_key),
    ] {
        assert_eq!(error(url, arguments, 4), format!("error: {detail}\n"));
        let shown = problem(url, arguments, 4);
        assert_eq!(shown["detail"], detail.as_str());
        let code = shown["code"].as_str().unwrap();
        assert!(code.ends_with("_not_found"), "{code}");
    }
}

#[tokio::test]
async fn wrong_command_line_gets_advice() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let account = "acc_01h455vb4pex5vsknk084sn02q";
    let key = "key_01h455vb4pex5vsknk084sn02q";
    for (arguments, part) in [
        (
            &["key", "issue", "--account", account, "--scope", "all"] as &[&str],
            "link:links.write",
        ),
        (
            &[
                "key",
                "issue",
                "--account",
                "acme",
                "--scope",
                "link:links.read",
            ],
            "identifier",
        ),
        (
            &["account", "create", "--name", "  "],
            "1 to 200 printable characters",
        ),
        (
            &["account", "create", "--name", "x", "--external-id", "a b"],
            "1 to 128 of",
        ),
        (&["account", "change", "--account", account], "Usage"),
        (&["key", "change", key], "Usage"),
        (
            &["key", "rotate", key, "--overlap-seconds", "604801"],
            "604800",
        ),
        (
            &["key", "rotate", key, "--sha256", "12"],
            "64 hexadecimal digits",
        ),
        (
            &["key", "rotate", key, "--idempotency-key", "\u{e9}"],
            "1 to 128 printable ASCII characters",
        ),
        (
            &[
                "admin-key",
                "issue",
                "--name",
                "x",
                "--scope",
                "link:links.read",
            ],
            "admin:credits",
        ),
        (&["key", "revoke"], "Usage"),
    ] {
        let message = error(url, arguments, 2);
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_migration_times_out_and_retry_succeeds() {
    let database = TestDatabase::create().await;
    // A pending migration that references a table of requests, and the time limit of the owner's role.
    sqlx::raw_sql(
        "DROP TABLE event_store.relay_cursors, event_store.relay_producers;
         DELETE FROM event_store._sqlx_migrations WHERE version = 20261128100500;
         DO $$
         BEGIN
             EXECUTE format('ALTER DATABASE %I SET lock_timeout = 100', current_database());
         END
         $$",
    )
    .execute(database.pool())
    .await
    .unwrap();
    let mut writer = PoolTransaction::begin(database.pool()).await.unwrap();
    sqlx::raw_sql("UPDATE event_store.log_shards SET head = head WHERE shard = 0")
        .execute(&mut *writer)
        .await
        .unwrap();
    assert_eq!(
        error(database.url(), &["migrate"], 1),
        "error: migration 20261128100500 timed out waiting for a lock on a table that another \
         transaction uses, so that the services are not blocked; the migration was rolled back: \
         retry `migrate` when the other transaction has ended\n"
    );
    writer.rollback().await.unwrap();
    json(database.url(), &["migrate"]);
}

#[tokio::test]
async fn unusable_database_is_a_one_line_error() {
    let unreachable = "postgres://nobody@127.0.0.1:1/none";
    let create = ["account", "create", "--name", "x"];
    let message = error(unreachable, &create, 7);
    assert!(
        message.starts_with("error: cannot connect to the database at "),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1, "{message}");
    assert_eq!(
        problem(unreachable, &create, 7)["code"],
        "storage_unavailable"
    );

    let database = TestDatabase::create().await;
    let mut tx = PoolTransaction::begin(database.pool()).await.unwrap();
    sqlx::query(
        "DELETE FROM event_store._sqlx_migrations WHERE version = (
             SELECT max(version) FROM event_store._sqlx_migrations)",
    )
    .execute(&mut *tx)
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let message = error(database.url(), &create, 1);
    assert!(
        message.contains("is pending; run `command-api migrate`"),
        "{message}"
    );
}

#[tokio::test]
async fn migrate_asks_for_forgotten_address_of_other_schema() {
    let app = TestApp::start().await;
    let url = app.database.url();
    let drop = async |schema: &str| {
        let drop = format!("DROP SCHEMA {schema} CASCADE");
        let dropped = sqlx::raw_sql(sqlx::AssertSqlSafe(drop));
        dropped.execute(app.database.pool()).await.unwrap();
    };
    let with = |variable: &str| {
        let mut migrate = Command::new(env!("CARGO_BIN_EXE_command-api"));
        migrate.arg("migrate").env("DATABASE_URL", url);
        migrate.env(variable, url).output().unwrap()
    };
    drop("read_model").await;
    // As a first `migrate` that was interrupted.
    json(url, &["migrate"]);
    let (_, key) = app.account(1).await;
    app.link(&key).await;
    drop("read_model").await;
    let refused = error(url, &["migrate"], 1);
    assert!(refused.contains("set READ_DATABASE_URL"), "{refused}");
    let migrated = with("READ_DATABASE_URL");
    assert!(migrated.status.success(), "{migrated:?}");
    let printed = String::from_utf8(migrated.stdout).unwrap();
    assert!(
        printed.ends_with("is up to date: schema event_store, read_model, clicks.\n"),
        "{printed}"
    );

    drop("event_store").await;
    let refused = error(url, &["migrate"], 1);
    assert!(refused.contains("set LOG_DATABASE_URL"), "{refused}");
    assert!(with("LOG_DATABASE_URL").status.success());
}

#[tokio::test]
async fn migrate_adds_missing_schema() {
    let app = TestApp::start().await;
    let (url, pool) = (app.database.url(), app.database.pool());
    let (_, key) = app.account(1).await;
    app.link(&key).await;
    sqlx::raw_sql("DROP SCHEMA clicks CASCADE")
        .execute(pool)
        .await
        .unwrap();
    assert!(migrations::check(pool, &Schema::ALL).await.is_err());
    for _ in 0..2 {
        json(url, &["migrate"]);
        migrations::check(pool, &Schema::ALL).await.unwrap();
    }
    let positions: i64 = sqlx::query_scalar("SELECT count(*) FROM clicks.positions")
        .fetch_one(pool)
        .await
        .unwrap();
    assert_eq!(positions, 16);
}

#[tokio::test]
async fn migrate_accepts_migrations_of_later_release() {
    let app = TestApp::start().await;
    sqlx::raw_sql(
        "INSERT INTO event_store._sqlx_migrations (version, description, success, checksum, execution_time)
         VALUES (29990101000000, 'of a later release', true, '\\x00', 0)",
    )
    .execute(app.database.pool())
    .await
    .unwrap();
    json(app.database.url(), &["migrate"]);
}

#[tokio::test]
async fn migrate_refuses_swapped_addresses() {
    let (log, read) = (TestDatabase::create().await, TestDatabase::create().await);
    for (database, schema) in [(&log, "read_model"), (&read, "event_store")] {
        let drop = format!("DROP SCHEMA {schema} CASCADE");
        let dropped = sqlx::raw_sql(sqlx::AssertSqlSafe(drop));
        dropped.execute(database.pool()).await.unwrap();
    }
    let migrate = |log_url: &str, read_url: &str| {
        Command::new(env!("CARGO_BIN_EXE_command-api"))
            .arg("migrate")
            .env("DATABASE_URL", log_url)
            .env("READ_DATABASE_URL", read_url)
            .output()
            .unwrap()
    };
    let migrated = migrate(log.url(), read.url());
    assert!(migrated.status.success(), "{migrated:?}");
    let refused = migrate(read.url(), log.url());
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("are probably swapped"), "{message}");
    let created: bool =
        sqlx::query_scalar("SELECT to_regclass('read_model.checkpoints') IS NOT NULL")
            .fetch_one(log.pool())
            .await
            .unwrap();
    assert!(!created, "nothing was made in the wrong database");
}

#[tokio::test]
async fn address_of_log_wins_in_every_command() {
    let database = TestDatabase::create().await;
    let create = ["account", "create", "--name", "Acme", "--json"];
    let created = Command::new(env!("CARGO_BIN_EXE_command-api"))
        .args(create)
        .env("DATABASE_URL", "postgres://nobody@127.0.0.1:1/none")
        .env("LOG_DATABASE_URL", database.url())
        .output()
        .unwrap();
    assert!(created.status.success(), "{created:?}");
}
