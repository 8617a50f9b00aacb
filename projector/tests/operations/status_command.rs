//! `projector status` as a process.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use linkledger_core::projection::Projection;
use linkledger_testing::TestDatabase;
use serde_json::Value;

use crate::{
    process::stdout,
    status::{attend, run},
};

#[tokio::test]
async fn table_without_terminal_is_plain() {
    let database = TestDatabase::create().await;
    attend(database.pool()).await;
    let text = stdout(&run(&database, &[]).await);
    assert!(!text.contains('\u{1b}'), "{text}");
    let rows = text.lines().skip(3).take(Projection::ALL.len());
    let names: Vec<_> = rows.map(|it| it.split_whitespace().next()).collect();
    assert_eq!(names, Projection::ALL.map(|it| Some(it.name())));
    let text = stdout(&run(&database, &["--shards", "--projection", "links"]).await);
    let rows = text.lines().filter(|it| it.starts_with("links"));
    assert_eq!(rows.count(), 1 + 16, "{text}");

    let json = run(&database, &["--json", "--projection", "credits"]).await;
    let status: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(status["projections"].as_array().unwrap().len(), 1);
    let credits = &status["projections"][0];
    assert_eq!(credits["projection"], "credits");
    assert_eq!(credits["state"], "live");
    assert_eq!(credits["shards"][15]["shard"], 15);
    assert_eq!(credits["generations"][0]["phase"], "active");
}

#[tokio::test]
async fn watch_continues_until_ctrl_c() {
    let database = TestDatabase::create().await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
    command
        .args(["status", "--watch", "1", "--json"])
        .env("DATABASE_URL", database.url())
        .stdout(Stdio::piped());
    let watched = tokio::task::spawn_blocking(move || {
        let mut watch = command.spawn().unwrap();
        let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let times: Vec<String> = lines
            .take(2)
            .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()["at"].to_string())
            .collect();
        let pid = watch.id().to_string();
        let interrupt = Command::new("kill").args(["-INT", &pid]).status();
        assert!(interrupt.unwrap().success());
        (times, watch.wait().unwrap())
    });
    let (times, ended) = watched.await.unwrap();
    assert!(times[0] < times[1], "{times:?}");
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test]
async fn unknown_projection_is_refused_with_the_known_ones() {
    let database = TestDatabase::create().await;
    let output = run(&database, &["--projection", "clicks"]).await;
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    let known = Projection::ALL.map(Projection::name).join(", ");
    assert!(error.contains(&known), "{error}");
}
