//! Commands of operators, rights, and the counting as a task of a projector.

use std::process::{Command, Output};

use linkledger_core::{
    click::Dimension,
    clock::{Clock as _, SystemClock},
    databases::Databases,
    event_store::{self, SessionKind},
};
use linkledger_projector::{
    clicks::{self, CountingEnd, CountingLoop, housekeeping},
    operations::{self, clicks::status},
};
use linkledger_testing::eventually;
use serde_json::Value;
use sqlx::{PgPool, postgres::PgPoolOptions, raw_sql};
use time::Duration;

use super::click_stage::{ClickStage, TestRecorder, all_shards, click, clicks as counted_clicks};
use super::figures::clicks_of_values;

pub(crate) const ROLES: &str = include_str!("../../../deploy/postgres/roles.sql");

/// Returns a pool of sessions with the rights of a role.
pub(crate) fn pool_of(stage: &ClickStage, role: &str) -> PgPool {
    let url = stage.stage.read.url();
    let options = event_store::session_options(url, SessionKind::Projector).unwrap();
    PgPoolOptions::new().connect_lazy_with(options.options([("role", role)]))
}

async fn command(stage: &ClickStage, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
    command
        .args(arguments)
        .env("DATABASE_URL", stage.stage.database.url())
        .env("READ_DATABASE_URL", stage.stage.read.url())
        .env("LINKLEDGER_OPERATOR", "ada");
    let output = tokio::task::spawn_blocking(move || command.output());
    output.await.unwrap().unwrap()
}

#[tokio::test]
async fn projector_grants_suffice_to_count() {
    let stage = ClickStage::set().await;
    raw_sql(ROLES).execute(stage.pool()).await.unwrap();
    let pool = pool_of(&stage, "linkledger_projector");
    let databases = Databases {
        read: pool.clone(),
        ..stage.stage.databases(SessionKind::Projector, 1)
    };
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    for _ in 0..2 {
        let made = [click(1, now), click(2, now - Duration::days(70))];
        stage.publish(&mut recorder, &made).await;
        let end = CountingEnd::default();
        end.at_end_of_topic.cancel();
        let counting = CountingLoop::new(&stage.config(), databases.clone(), all_shards()).unwrap();
        counting.run(end).await.unwrap();
    }
    assert_eq!(counted_clicks(stage.pool()).await, 4);
    housekeeping::create_ahead(&pool).await.unwrap();
    housekeeping::drop_expired(&pool).await.unwrap();
    housekeeping::create_salts(&pool).await.unwrap();
    housekeeping::delete_salts(&pool).await.unwrap();
    housekeeping::prune_recorders(&pool).await.unwrap();
    housekeeping::prune_sequences(&pool).await.unwrap();
    status(&pool).await.unwrap();
}

#[tokio::test]
async fn commands_pause_resume_and_show_the_counting() {
    let stage = ClickStage::set().await;
    let stdout = async |arguments: &[&str]| {
        let output = command(&stage, arguments).await;
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = stdout(&["pause", "clicks", "--dry-run"]).await;
    assert_eq!(shown, "`clicks` would be paused\n");
    stdout(&["pause", "clicks", "--reason", "ticket 7"]).await;
    let mut recorder = TestRecorder::new();
    stage
        .publish(&mut recorder, &[click(1, SystemClock.now())])
        .await;
    stage.count().await;
    let json: Value = serde_json::from_str(&stdout(&["status", "--json"]).await).unwrap();
    let clicks = &json["clicks"];
    assert!(clicks["paused_at"].is_string() && clicks["last_batch_seconds_ago"].is_null());
    assert_eq!(clicks["paused_by"]["operator"], "ada");
    let text = stdout(&["status"]).await;
    assert!(text.contains(" by ada (ticket 7)\n"), "{text}");
    let resumed = stdout(&["resume", "clicks"]).await;
    assert_eq!(resumed, "`clicks` continues within a second\n");
    let resumed = stdout(&["resume", "clicks"]).await;
    assert_eq!(resumed, "`clicks` is not paused\n");
    let rows: Vec<(String, String)> =
        sqlx::query_as("SELECT command, subject FROM read_model.operations ORDER BY operation_id")
            .fetch_all(stage.pool())
            .await
            .unwrap();
    let expected = ["pause", "resume"].map(|command| (command.to_owned(), "clicks".to_owned()));
    assert_eq!(rows, expected);
    stage.count().await;
    let status = status(stage.pool()).await.unwrap();
    assert!(status.last_batch_seconds_ago.is_some());
}

#[tokio::test]
async fn unreadable_state_of_clicks_leaves_the_rest_of_the_status() {
    let stage = ClickStage::set().await;
    raw_sql("DROP FUNCTION clicks.lag_seconds()")
        .execute(stage.pool())
        .await
        .unwrap();
    let databases = stage.stage.databases(SessionKind::Reader, 2);
    let status = operations::status::collect(&databases).await.unwrap();
    let finding = "the state of the counting of clicks cannot be read";
    assert!(
        status.findings.iter().any(|it| it.starts_with(finding)),
        "{:?}",
        status.findings
    );
    let json = serde_json::to_value(&status).unwrap();
    assert!(json["clicks"].is_null() && json["projections"][2].is_object());
}

#[tokio::test]
async fn projector_counts_clicks_beside_projections() {
    let stage = ClickStage::set().await;
    stage.stage.account_with_links("both", 2).await;
    stage.stage.publish(&stage.stage.log().await).await;
    let mut recorder = TestRecorder::new();
    stage
        .publish(&mut recorder, &[click(1, SystemClock.now())])
        .await;
    let projector = stage.stage.projector_of(stage.config()).await;
    let is_counted = async || (counted_clicks(stage.pool()).await == 1).then_some(());
    eventually("the click is counted", is_counted).await;
    stage.stage.eventually_complete().await;
    let salts = async || {
        let salts: i64 = sqlx::query_scalar("SELECT count(*) FROM clicks.salts")
            .fetch_one(stage.pool())
            .await
            .unwrap();
        (salts == 2).then_some(())
    };
    eventually("the salts of two days exist", salts).await;
    projector.stop().await;
}

#[tokio::test]
async fn counting_runs_to_end_of_topic() {
    let stage = ClickStage::set().await;
    let mut recorder = TestRecorder::new();
    let made: Vec<_> = (0..20).map(|link| click(link, SystemClock.now())).collect();
    stage.publish(&mut recorder, &made).await;
    let databases = Databases {
        read: clicks::pool(&stage.config()).unwrap(),
        ..stage.stage.databases(SessionKind::Projector, 1)
    };
    let end = CountingEnd::default();
    end.at_end_of_topic.cancel();
    let counting = CountingLoop::new(&stage.config(), databases, all_shards()).unwrap();
    counting.run(end).await.unwrap();
    assert_eq!(counted_clicks(stage.pool()).await, 20);
    let of_values = clicks_of_values(stage.pool(), "link value", Dimension::Country).await;
    assert_eq!(of_values, 20);
}
