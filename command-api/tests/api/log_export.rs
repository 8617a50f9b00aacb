//! `log export`: the whole log as files, also after interrupted runs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use linkledger_core::{cloud_event::PublishedEvent, id::AccountId, shard::Shard};
use linkledger_event_store::log::{self, ReadFrom};
use linkledger_testing as testing;
use linkledger_testing::{TestDatabase, eventually};
use serde_json::Value;
use sqlx::AssertSqlSafe;
use tempfile::TempDir;

use crate::cli::{error, json, run};

const LINK_COUNT: usize = 20;

async fn append_links(database: &TestDatabase, account_id: AccountId, count: usize) {
    for _ in 0..count {
        let slug = linkledger_core::link::Slug::generate().to_string();
        let link = [(slug.as_str(), "https://example.com/?q=\u{fc}")];
        testing::append_links(database.pool(), account_id, &link).await;
    }
}

async fn log_of_two_accounts() -> (TestDatabase, AccountId) {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 1_000).await;
    append_links(&database, account_id, LINK_COUNT).await;
    let other = testing::account(database.pool(), 1_000).await;
    append_links(&database, other, 3).await;
    (database, account_id)
}

/// Appends thousands of meaningless events that have every column that an export reads.
async fn fill(database: &TestDatabase, shard: Shard, events: i32) {
    let statement = format!(
        "INSERT INTO event_store.events
             (shard, position, stream_id, version, account_id, event_id, type, schema_version,
              payload, metadata, recorded_at)
         SELECT {shard}, n, gen_random_uuid(), 1, gen_random_uuid(), gen_random_uuid(),
                'LinkCreated', 1, json_build_object('n', n), '{{}}', now()
         FROM generate_series(1, {events}) AS n;
         UPDATE event_store.log_shards SET head = {events} WHERE shard = {shard}"
    );
    sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(database.pool())
        .await
        .unwrap();
}

fn export(folder: &Path) -> [&str; 4] {
    ["log", "export", "--to", folder.to_str().unwrap()]
}

fn file_of(folder: &Path, shard: Shard) -> PathBuf {
    folder.join(format!("shard-{:02}.ndjson", shard.number()))
}

fn contents(folder: &Path) -> Vec<Vec<u8>> {
    let file = |shard| fs::read(file_of(folder, shard)).unwrap();
    Shard::all().map(file).collect()
}

/// Returns the expected lines of a file, from another reader of the log.
async fn lines(database: &TestDatabase, shard: Shard) -> String {
    let from = ReadFrom { shard, after: 0 };
    let events = log::read_after(database.pool(), &[from], 1_000).await;
    let line = |event| PublishedEvent::new(event, 1).to_json().unwrap() + "\n";
    events.unwrap().into_iter().map(line).collect()
}

#[tokio::test]
async fn export_has_every_event_once_in_order() {
    let (database, account_id) = log_of_two_accounts().await;
    let folder = TempDir::new().unwrap();
    let exported = json(database.url(), &export(folder.path()));
    assert_eq!(exported["events"], 2 * (LINK_COUNT + 3));
    assert_eq!(exported["shards"].as_array().unwrap().len(), 16);
    for (shard, content) in Shard::all().zip(contents(folder.path())) {
        let expected = lines(&database, shard).await;
        assert_eq!(String::from_utf8(content).unwrap(), expected);
    }
    let file = fs::read_to_string(file_of(folder.path(), Shard::of(account_id))).unwrap();
    for (line, position) in file.lines().zip(1..) {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["sequence"], format!("{position:020}"));
        assert_eq!(event["logepoch"], "1");
    }
}

#[tokio::test]
async fn second_export_adds_only_new_events() {
    let (database, account_id) = log_of_two_accounts().await;
    let folder = TempDir::new().unwrap();
    json(database.url(), &export(folder.path()));
    let again = json(database.url(), &export(folder.path()));
    assert_eq!(again["events"], 0);
    append_links(&database, account_id, 2).await;
    let more = json(database.url(), &export(folder.path()));
    assert_eq!(more["events"], 4);
    for (shard, content) in Shard::all().zip(contents(folder.path())) {
        let expected = lines(&database, shard).await;
        assert_eq!(String::from_utf8(content).unwrap(), expected);
    }
    let text = run(database.url(), &export(folder.path())).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(" events/s): new events 0; "), "{text}");
    assert!(text.ends_with(" has 50, epoch 1\n"), "{text}");
}

#[tokio::test]
async fn export_continues_after_any_cut() {
    let (database, account_id) = log_of_two_accounts().await;
    let folder = TempDir::new().unwrap();
    json(database.url(), &export(folder.path()));
    let path = file_of(folder.path(), Shard::of(account_id));
    let whole = fs::read(&path).unwrap();
    let second = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in [0, 1, 2, second - 1, second, second + 1, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        json(database.url(), &export(folder.path()));
        assert!(fs::read(&path).unwrap() == whole, "cut at {cut}");
    }
    // An incomplete line of an event that the log lacks.
    fs::write(&path, [&whole[..], b"{\"datacontenttype"].concat()).unwrap();
    json(database.url(), &export(folder.path()));
    assert!(fs::read(&path).unwrap() == whole);
}

#[tokio::test]
async fn killed_exports_result_in_the_whole_log() {
    const EVENTS: i32 = 30_000;
    const KILLS: u64 = 4;
    let database = TestDatabase::create().await;
    let shard = Shard::new(3).unwrap();
    fill(&database, shard, EVENTS).await;
    let (whole, killed) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    json(database.url(), &export(whole.path()));
    let length = fs::metadata(file_of(whole.path(), shard)).unwrap().len();
    let path = file_of(killed.path(), shard);
    let mut cut_short = 0;
    for kill in 1..=KILLS {
        let mut process = Command::new(env!("CARGO_BIN_EXE_command-api"))
            .args(export(killed.path()))
            .env("DATABASE_URL", database.url())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        eventually("it has written its part", async || {
            let written = fs::metadata(&path).map_or(0, |metadata| metadata.len());
            (written > length * kill / (KILLS + 2)).then_some(())
        })
        .await;
        process.kill().unwrap();
        process.wait().unwrap();
        if fs::metadata(&path).unwrap().len() < length {
            cut_short += 1;
        } else {
            // The export was faster than the kill: the next export begins again.
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_len(length * kill / (KILLS + 2)).unwrap();
        }
    }
    assert!(cut_short > 0, "each was faster than the kill");
    json(database.url(), &export(killed.path()));
    assert!(contents(killed.path()) == contents(whole.path()));
}

#[tokio::test]
async fn folder_of_another_log_is_refused_unchanged() {
    let (database, account_id) = log_of_two_accounts().await;
    let folder = TempDir::new().unwrap();
    let export = export(folder.path());
    json(database.url(), &export);
    let shard = Shard::of(account_id);
    let path = file_of(folder.path(), shard);
    let whole = fs::read_to_string(&path).unwrap();
    let last = whole.lines().last().unwrap();
    let other_shard = format!("/linkledger/shards/{}", (shard.number() + 1) % 16);
    let source = format!("/linkledger/shards/{shard}\"");
    let sequence = format!("{:020}", whole.lines().count());
    for (line, reason) in [
        (
            last.replace(&source, &format!("{other_shard}\"")),
            "the last event belongs to /linkledger",
        ),
        (
            last.replace(r#""logepoch":"1""#, r#""logepoch":"7""#),
            "the file has events of epoch 7",
        ),
        (
            last.replace(&sequence, &format!("{:020}", 999)),
            "has positions up to 999",
        ),
        (
            last.replace(&sequence, &format!("{:020}", 7)),
            "belongs to another log",
        ),
        (
            "a,b,c".to_owned(),
            "the last line is not an event of an export",
        ),
    ] {
        let content = format!("{line}\n");
        fs::write(&path, &content).unwrap();
        let message = error(database.url(), &export, 1);
        assert!(message.contains(reason), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
    fs::write(&path, "a note without a line feed").unwrap();
    let message = error(database.url(), &export, 1);
    assert!(message.contains("the file is not an export"), "{message}");
}

#[tokio::test]
async fn concurrent_export_to_a_file_is_refused() {
    let (database, _) = log_of_two_accounts().await;
    let folder = TempDir::new().unwrap();
    let path = file_of(folder.path(), Shard::new(0).unwrap());
    let file = fs::File::create(&path).unwrap();
    file.try_lock().unwrap();
    let arguments = [&export(folder.path())[..], &["--shard", "0"]].concat();
    let message = error(database.url(), &arguments, 1);
    assert!(message.contains("another export is writing"), "{message}");
}

#[tokio::test]
async fn shard_is_exported_from_any_position() {
    let (database, account_id) = log_of_two_accounts().await;
    let shard = Shard::of(account_id).to_string();
    let whole = lines(&database, Shard::of(account_id)).await;
    for after in [0, 1, 2 * LINK_COUNT - 1] {
        let after_text = after.to_string();
        let arguments = ["log", "export", "--shard", &shard, "--after", &after_text];
        let output = run(database.url(), &arguments);
        assert!(output.status.success(), "{output:?}");
        let expected: String = whole.split_inclusive('\n').skip(after).collect();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
        assert!(output.stderr.is_empty());
    }
    let message = error(
        database.url(),
        &["log", "export", "--shard", &shard, "--after", "999"],
        1,
    );
    assert!(message.contains("before 999"), "{message}");
}

#[tokio::test]
async fn closed_pipe_is_no_failure() {
    let database = TestDatabase::create().await;
    fill(&database, Shard::new(3).unwrap(), 10_000).await;
    let mut process = Command::new(env!("CARGO_BIN_EXE_command-api"))
        .args(["log", "export", "--shard", "3"])
        .env("DATABASE_URL", database.url())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stdout.take());
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[tokio::test]
async fn gap_in_the_log_ends_the_export() {
    let (database, account_id) = log_of_two_accounts().await;
    let shard = Shard::of(account_id);
    sqlx::raw_sql(AssertSqlSafe(format!(
        "ALTER TABLE event_store.events DISABLE TRIGGER USER;
         DELETE FROM event_store.events WHERE shard = {shard} AND position = 5"
    )))
    .execute(database.pool())
    .await
    .unwrap();
    let folder = TempDir::new().unwrap();
    let message = error(database.url(), &export(folder.path()), 1);
    assert!(
        message.contains("there is no event at position 5; run `command-api log verify`"),
        "{message}"
    );
    let file = fs::read_to_string(file_of(folder.path(), shard)).unwrap();
    assert_eq!(file.lines().count(), 4);
}
