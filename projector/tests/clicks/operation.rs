//! Commands of operators, rights, and the aggregation as a task of a projector.

use std::process::{Command, Output};

use linkledger_clicks::Dimension;
use linkledger_core::clock::{Clock as _, SystemClock};
use linkledger_event_store::SessionKind;
use linkledger_projector::{
    clicks::{self, AggregationEnd, AggregationLoop, housekeeping},
    operations::{self, status::clicks::read as status},
};
use linkledger_service::databases::Databases;
use linkledger_testing::eventually;
use serde_json::Value;
use sqlx::{PgPool, postgres::PgPoolOptions, raw_sql};
use time::Duration;

use super::{
    click_events::{create_accounts, first_clicks, minutes, subscribe},
    click_fixture::{ClickFixture, TestRecorder, all_shards, click, clicks as counted_clicks},
    statistics::clicks_of_values,
};

pub(crate) const ROLES: &str = include_str!("../../../deploy/postgres/roles.sql");

/// Returns a pool of sessions with the rights of a role.
pub(crate) fn pool_of(fixture: &ClickFixture, role: &str) -> PgPool {
    let url = fixture.fixture.read.url();
    let options = linkledger_event_store::session_options(url, SessionKind::Projector).unwrap();
    PgPoolOptions::new().connect_lazy_with(options.options([("role", role)]))
}

async fn command(fixture: &ClickFixture, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
    command
        .args(arguments)
        .env("DATABASE_URL", fixture.fixture.database.url())
        .env("READ_DATABASE_URL", fixture.fixture.read.url())
        .env("LINKLEDGER_OPERATOR", "ada");
    let output = tokio::task::spawn_blocking(move || command.output());
    output.await.unwrap().unwrap()
}

#[tokio::test]
async fn projector_grants_suffice_to_count() {
    let fixture = ClickFixture::new().await;
    raw_sql(ROLES).execute(fixture.pool()).await.unwrap();
    let pool = pool_of(&fixture, "linkledger_projector");
    let databases = Databases::from(pool.clone());
    create_accounts(&fixture).await;
    subscribe(&fixture, 1, |_| {}).await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    for _ in 0..2 {
        let made = [click(1, now), click(2, now - Duration::days(70))];
        fixture.publish(&mut recorder, &made).await;
        let end = AggregationEnd::default();
        end.at_end_of_topic.cancel();
        let aggregation =
            AggregationLoop::new(&fixture.config(), databases.clone(), all_shards()).unwrap();
        aggregation.run(end).await.unwrap();
    }
    assert_eq!(counted_clicks(fixture.pool()).await, 4);
    assert_eq!(first_clicks(fixture.pool()).await.len(), 2);
    assert_eq!(minutes(fixture.pool()).await.len(), 1);
    housekeeping::create_ahead(&pool).await.unwrap();
    housekeeping::drop_expired(&pool).await.unwrap();
    housekeeping::create_salts(&pool).await.unwrap();
    housekeeping::delete_salts(&pool).await.unwrap();
    housekeeping::prune_recorders(&pool).await.unwrap();
    housekeeping::prune_sequences(&pool).await.unwrap();
    status(&pool).await.unwrap();
}

#[tokio::test]
async fn commands_pause_resume_and_show_the_aggregation() {
    let fixture = ClickFixture::new().await;
    let stdout = async |arguments: &[&str]| {
        let output = command(&fixture, arguments).await;
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = stdout(&["pause", "clicks", "--dry-run"]).await;
    assert_eq!(shown, "`clicks` would be paused\n");
    stdout(&["pause", "clicks", "--reason", "ticket 7"]).await;
    let mut recorder = TestRecorder::new();
    fixture
        .publish(&mut recorder, &[click(1, SystemClock.now())])
        .await;
    fixture.count().await;
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
            .fetch_all(fixture.pool())
            .await
            .unwrap();
    let expected = ["pause", "resume"].map(|command| (command.to_owned(), "clicks".to_owned()));
    assert_eq!(rows, expected);
    fixture.count().await;
    let status = status(fixture.pool()).await.unwrap();
    assert!(status.last_batch_seconds_ago.is_some());
}

#[tokio::test]
async fn unreadable_state_of_clicks_leaves_the_rest_of_the_status() {
    let fixture = ClickFixture::new().await;
    raw_sql("DROP FUNCTION clicks.lag_seconds()")
        .execute(fixture.pool())
        .await
        .unwrap();
    let databases = fixture.fixture.databases(SessionKind::Reader, 2);
    let status = operations::status::collect(&databases).await.unwrap();
    let finding = "the state of the aggregation of clicks cannot be read";
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
    let fixture = ClickFixture::new().await;
    fixture.fixture.account_with_links("both", 2).await;
    fixture.fixture.publish(&fixture.fixture.log().await).await;
    let mut recorder = TestRecorder::new();
    fixture
        .publish(&mut recorder, &[click(1, SystemClock.now())])
        .await;
    let projector = fixture.fixture.projector_of(fixture.config()).await;
    let is_counted = async || (counted_clicks(fixture.pool()).await == 1).then_some(());
    eventually("the click is counted", is_counted).await;
    fixture.fixture.eventually_complete().await;
    let salts = async || {
        let salts: i64 = sqlx::query_scalar("SELECT count(*) FROM clicks.salts")
            .fetch_one(fixture.pool())
            .await
            .unwrap();
        (salts == 2).then_some(())
    };
    eventually("the salts of two days exist", salts).await;
    projector.stop().await;
}

#[tokio::test]
async fn aggregation_runs_to_end_of_topic() {
    let fixture = ClickFixture::new().await;
    let mut recorder = TestRecorder::new();
    let made: Vec<_> = (0..20).map(|link| click(link, SystemClock.now())).collect();
    fixture.publish(&mut recorder, &made).await;
    let databases = Databases {
        read: clicks::pool(&fixture.config()).unwrap(),
        ..fixture.fixture.databases(SessionKind::Projector, 1)
    };
    let end = AggregationEnd::default();
    end.at_end_of_topic.cancel();
    let aggregation = AggregationLoop::new(&fixture.config(), databases, all_shards()).unwrap();
    aggregation.run(end).await.unwrap();
    assert_eq!(counted_clicks(fixture.pool()).await, 20);
    let of_values = clicks_of_values(fixture.pool(), "link value", Dimension::Country).await;
    assert_eq!(of_values, 20);
}
