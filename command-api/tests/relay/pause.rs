//! Commands `relay pause`, `relay resume` and `relay status`.

use std::time::{Duration, Instant};

use linkledger_command_api::relay::Relay;
use linkledger_core::shard::Shard;
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use serde_json::{Value, json};

use crate::{
    cli,
    fixture::{Recorder, relay, step_until_stored, with_links},
    support::{TestApp, create, destination, fresh_key, send},
};

pub(crate) const PAUSE: [&str; 4] = ["relay", "pause", "--reason", "Kafka is upgraded"];
pub(crate) const RESUME: [&str; 2] = ["relay", "resume"];

pub(crate) fn status(database: &TestDatabase) -> Value {
    cli::json(database.url(), &["relay", "status"])
}

/// Steps until the condition holds.
pub(crate) async fn step_until(relay: &mut Relay, what: &str, is_so: impl AsyncFn() -> bool) {
    let until = Instant::now() + Duration::from_mins(2);
    while !is_so().await {
        assert!(Instant::now() < until, "not in time: {what}");
        relay.step().await.unwrap();
    }
}

#[tokio::test]
async fn pause_holds_across_restarts_and_keeps_order() {
    let database = TestDatabase::create().await;
    let account_id = with_links(&database, 1).await;
    let (url, shard) = (database.url(), Shard::of(account_id));
    let recorder = Recorder::default();
    let mut running = relay(&database, recorder.clone(), "one");
    step_until_stored(&mut running, &database, (shard, 2)).await;
    assert_eq!(status(&database)["producers"], json!(["one"]));

    let paused = |changed| json!({ "paused": true, "changed": changed });
    assert_eq!(cli::json(url, &PAUSE), paused(true));
    assert_eq!(cli::json(url, &PAUSE), paused(false));
    step_until(&mut running, "its producer has ended", async || {
        status(&database)["producers"] == json!([])
    })
    .await;
    let links = [("later", "https://example.com")];
    testing::append_links(database.pool(), account_id, &links).await;
    assert_eq!(running.step().await.unwrap(), 0);
    let mut restarted = relay(&database, recorder.clone(), "one");
    assert_eq!(restarted.step().await.unwrap(), 0);
    let shown = status(&database);
    assert_eq!(shown["paused"]["by"], cli::OPERATOR);
    assert_eq!(shown["paused"]["reason"], "Kafka is upgraded");
    let of_shard = &shown["shards"][shard.index()];
    assert_eq!(of_shard["backlog_events"], 2);
    assert_eq!(of_shard["lease_seconds"], Value::Null);
    assert!(of_shard["oldest_age_seconds"].as_f64().unwrap() >= 0.0);

    let resumed = |changed| json!({ "paused": false, "changed": changed });
    assert_eq!(cli::json(url, &RESUME), resumed(true));
    assert_eq!(cli::json(url, &RESUME), resumed(false));
    let mut restarted = relay(&database, recorder.clone(), "one");
    step_until_stored(&mut restarted, &database, (shard, 4)).await;
    assert_eq!(recorder.taken(), [1, 2, 3, 4]);
    let shown = status(&database);
    assert_eq!(shown["paused"], Value::Null);
    assert_eq!(shown["resumed"]["by"], cli::OPERATOR);
    assert_eq!(shown["backlog_events"], 0);
    assert_eq!(shown["shards"][shard.index()]["owner"], "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn api_accepts_creates_during_a_pause() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(100).await;
    let shard = Shard::of(account_id);
    app.link(&key).await;
    let stored = async |position: i64| {
        testing::eventually("the cursor is stored", || async {
            let shown = status(&app.database);
            let stored = shown["shards"][shard.index()]["position"].as_i64();
            (stored == Some(position)).then_some(())
        })
        .await;
    };
    stored(2).await;
    cli::json(app.database.url(), &PAUSE);
    testing::eventually("the producer has ended", || async {
        (status(&app.database)["producers"] == json!([])).then_some(())
    })
    .await;
    for _ in 0..5 {
        let created = send(&app.router, create(&key, fresh_key(), &destination())).await;
        assert_eq!(created.status, 201);
    }
    assert_eq!(status(&app.database)["backlog_events"], 10);
    let text = cli::run(app.database.url(), &["relay", "status"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.starts_with("Paused since "), "{text}");
    let operator = cli::OPERATOR;
    let waiting = format!(" by {operator}: Kafka is upgraded\n10 events wait, the oldest for ");
    assert!(text.contains(&waiting), "{text}");
    cli::json(app.database.url(), &RESUME);
    stored(12).await;
}
