//! The operator's commands, run as processes.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use linkledger_core::api_key::{ApiKey, Scope};
use linkledger_event_store::{
    api_keys,
    migrations::{self, Schema},
    transaction::PoolTransaction,
};
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use serde_json::Value;

use crate::{
    cli::{error, json, run},
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
    let shown = json(
        database.url(),
        &["account", "show", text(&created["account_id"])],
    );
    assert_eq!(shown["name"], "Acme");
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

#[tokio::test(flavor = "multi_thread")]
async fn fresh_database_to_first_link() {
    let app = TestApp::start().await;
    let url = app.database.url();
    json(url, &["migrate"]);
    let account = json(url, &["account", "create", "--name", "Acme"]);
    let account = text(&account["account_id"]);
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
    assert_eq!(json(url, &grant)["balance"], 5);
    let issue = [
        "key",
        "issue",
        "--account",
        account,
        "--scope",
        "link:links.write",
    ];
    let issued = json(url, &issue);
    let key = ApiKey::parse(text(&issued["api_key"])).unwrap();

    let created = send(&app.router, create(&key, fresh_key(), &destination())).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.json()["credits_balance"], 4);
}

#[tokio::test]
async fn grant_with_key_is_made_once() {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 0).await.to_string();
    let grant = |amount: &str| {
        [
            "credits",
            "grant",
            "--account",
            &account_id,
            "--amount",
            amount,
            "--reason",
            "invoice 7",
        ]
        .map(str::to_owned)
        .into_iter()
        .chain(["--idempotency-key", "invoice-7"].map(str::to_owned))
        .collect::<Vec<_>>()
    };
    let arguments = grant("5");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let first = json(database.url(), &arguments);
    let again = json(database.url(), &arguments);
    assert_eq!(
        (&first["balance"], &first["replayed"]),
        (&5.into(), &false.into())
    );
    assert_eq!(
        (&again["balance"], &again["replayed"]),
        (&5.into(), &true.into())
    );
    let other = grant("6");
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    let message = error(database.url(), &other, 1);
    assert_eq!(
        message,
        "error: this idempotency key was used for another grant; use a new key\n"
    );
    let events: (i64,) = sqlx::query_as("SELECT count(*) FROM event_store.events")
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert_eq!(events.0, 1);
}

#[tokio::test]
async fn scopes_are_added_to_valid_keys_only() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let account_id = testing::account(database.pool(), 0).await.to_string();
    let scope = ["--scope", "link:links.read"];
    let issued = [&["key", "issue", "--account", &account_id], &scope[..]].concat();
    let issued = json(url, &issued);
    let key_id = text(&issued["key_id"]);
    let add = [
        "key",
        "scope",
        "add",
        key_id,
        "link:clicks.read,link:links.read",
    ];
    let both = serde_json::json!(["link:links.read", "link:clicks.read"]);
    let added = json(url, &add);
    assert_eq!(added["scopes"], both);
    assert_eq!(added["added"], serde_json::json!(["link:clicks.read"]));
    // A repetition changes nothing.
    let again = json(url, &add);
    assert_eq!(again["scopes"], both);
    assert_eq!(again["added"], serde_json::json!([]));
    let output = run(url, &add);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("has these scopes already"), "{told}");
    let key = ApiKey::parse(text(&issued["api_key"])).unwrap();
    let stored = api_keys::find(database.pool(), &key)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stored.scopes, [Scope::LinksRead, Scope::ClicksRead]);

    let other = "link:credits.read";
    let unknown = "key_01h455vb4pex5vsknk084sn02q";
    let message = error(url, &["key", "scope", "add", unknown, other], 1);
    assert_eq!(message, format!("error: there is no key {unknown}\n"));
    let message = error(url, &["key", "scope", "add", key_id, "link:all"], 2);
    assert!(message.contains("link:clicks.read"), "{message}");
    let expire = "UPDATE event_store.api_keys SET expires_at = '2026-01-01T00:00:00Z'";
    sqlx::query(expire).execute(database.pool()).await.unwrap();
    let message = error(url, &["key", "scope", "add", key_id, other], 1);
    assert!(
        message.contains("has expired; issue a new key"),
        "{message}"
    );
    let endless = "UPDATE event_store.api_keys SET expires_at = NULL";
    sqlx::query(endless).execute(database.pool()).await.unwrap();
    json(url, &["key", "revoke", key_id]);
    let message = error(url, &["key", "scope", "add", key_id, other], 1);
    assert!(message.contains("is revoked; issue a new key"), "{message}");
    let stored = api_keys::find(database.pool(), &key)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stored.scopes.len(), 2);
}

#[tokio::test]
async fn rotated_keys_overlap_but_revoked_key_ends() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let account_id = testing::account(database.pool(), 0).await.to_string();
    let issue = [
        "key",
        "issue",
        "--account",
        &account_id,
        "--scope",
        "link:links.read",
    ];
    let old = json(url, &issue);
    let old_id = text(&old["key_id"]);
    let rotated = json(url, &["key", "rotate", old_id, "--overlap-hours", "1"]);
    let new = ApiKey::parse(text(&rotated["new"]["api_key"])).unwrap();
    assert_eq!(rotated["new"]["scopes"], old["scopes"]);
    let old_key = ApiKey::parse(text(&old["api_key"])).unwrap();
    let stored = api_keys::find(database.pool(), &old_key)
        .await
        .unwrap()
        .unwrap();
    let ends = stored.revoked_at.unwrap();
    assert!(ends > time::OffsetDateTime::UNIX_EPOCH + time::Duration::days(20_000));

    // A later revocation never replaces an earlier one.
    json(url, &["key", "revoke", old_id]);
    let revoked = api_keys::find(database.pool(), &old_key)
        .await
        .unwrap()
        .unwrap();
    assert!(revoked.revoked_at.unwrap() < ends);
    let message = error(url, &["key", "rotate", old_id], 1);
    assert!(message.contains("is revoked; issue a new key"), "{message}");

    sqlx::query("UPDATE event_store.api_keys SET last_used_at = '2026-11-20T09:51:00Z'")
        .execute(database.pool())
        .await
        .unwrap();
    let listed = json(url, &["key", "list", "--account", &account_id]);
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(listed[0]["last_used_at"], "2026-11-20T09:51:00.000Z");
    assert!(!listed.to_string().contains(new.reveal()));
    let table = run(url, &["key", "list", "--account", &account_id]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.contains("LAST USED") && table.contains("2026-11-20T09:51:00.000Z"));
    assert!(table.contains(new.shown_prefix()) && !table.contains(new.reveal()));
}

#[tokio::test]
async fn expired_key_cannot_be_rotated() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let account_id = testing::account(database.pool(), 0).await.to_string();
    let scope = ["--scope", "link:links.read"];
    let issue = ["key", "issue", "--account", &account_id, "--expires-at"];
    let refused = error(
        url,
        &[&issue[..], &["2026-01-01T00:00:00Z"], &scope].concat(),
        1,
    );
    let expected = "error: --expires-at is in the past; give an instant in the future\n";
    assert_eq!(refused, expected);
    let issued = json(
        url,
        &[&issue[..], &["2999-01-01T00:00:00Z"], &scope].concat(),
    );
    sqlx::query("UPDATE event_store.api_keys SET expires_at = now() - interval '1 s'")
        .execute(database.pool())
        .await
        .unwrap();
    let message = error(url, &["key", "rotate", text(&issued["key_id"])], 1);
    assert!(message.contains("issue a new key instead"), "{message}");
}

#[tokio::test]
async fn unknown_ids_are_named_in_errors() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let (nobody, no_key) = (
        "acc_01h455vb4pex5vsknk084sn02q",
        "key_01h455vb4pex5vsknk084sn02q",
    );
    let issue = [
        "key",
        "issue",
        "--account",
        nobody,
        "--scope",
        "link:links.read",
    ];
    assert_eq!(
        error(url, &issue, 1),
        format!("error: there is no account {nobody}\n")
    );
    let grant = [
        "credits",
        "grant",
        "--account",
        nobody,
        "--amount",
        "1",
        "--reason",
        "x",
    ];
    assert_eq!(
        error(url, &grant, 1),
        format!("error: there is no account {nobody}\n")
    );
    let revoke = ["key", "revoke", no_key];
    assert_eq!(
        error(url, &revoke, 1),
        format!("error: there is no key {no_key}\n")
    );
}

#[tokio::test]
async fn wrong_command_line_gets_advice() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let account = "acc_01h455vb4pex5vsknk084sn02q";
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
    let message = error(unreachable, &["account", "create", "--name", "x"], 1);
    assert!(
        message.starts_with("error: cannot connect to the database at "),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1, "{message}");

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
    let message = error(database.url(), &["account", "create", "--name", "x"], 1);
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
