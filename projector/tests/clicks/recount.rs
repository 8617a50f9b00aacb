//! Recount: replaces statistics from the topic in one transaction, or changes nothing.

use std::process::{Command, Output};

use linkledger_clicks::{Click, ClickKind};
use linkledger_core::clock::{Clock as _, SystemClock};
use linkledger_event_store::{SessionKind, transaction::PoolTransaction};
use linkledger_projector::{
    clicks::recount::{RecountRefusal, RecountScope},
    operations::recount::{self, RecountReport},
    progress::ProgressReport,
};
use linkledger_service::{databases::Databases, failure};
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgPool, raw_sql};
use time::{Date, Duration, OffsetDateTime};

use super::{
    click_events::{create_accounts, first_clicks, minutes, subscribe},
    click_fixture::{ClickFixture, TestRecorder, click, clicks, partition_of},
    operation::{ROLES, pool_of},
    statistics::stored,
};

/// A position: partition, next offset, id of the last record.
type StoredPosition = (i16, i64, Option<String>);

fn scope(from: Date, accepts_fewer: bool) -> RecountScope {
    RecountScope {
        from,
        accepts_fewer,
    }
}

async fn recount_of(
    fixture: &ClickFixture,
    databases: &Databases,
    scope: RecountScope,
) -> anyhow::Result<RecountReport> {
    let kafka = fixture
        .config()
        .clicks
        .kafka(&fixture.config().kafka)
        .unwrap();
    let progress = ProgressReport::silent();
    recount::recount(databases, &kafka, scope, ("ada", None), &progress).await
}

async fn recount(fixture: &ClickFixture, scope: RecountScope) -> anyhow::Result<RecountReport> {
    let databases = fixture.fixture.databases(SessionKind::Writer, 2);
    recount_of(fixture, &databases, scope).await
}

/// Runs `projector recount`.
async fn command(fixture: &ClickFixture, fail_at: &str, arguments: &[&str]) -> Output {
    let config = fixture.config();
    let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
    command
        .arg("recount")
        .args(arguments)
        .env("DATABASE_URL", fixture.fixture.read.url())
        .env("LOG_DATABASE_URL", fixture.fixture.database.url())
        .env("LINKLEDGER_FAIL_AT", fail_at)
        .env("LINKLEDGER_OPERATOR", "ada")
        .env("KAFKA_CLICKS_TOPIC", config.clicks.clicks_topic.to_string())
        .envs(config.kafka.environment());
    let output = tokio::task::spawn_blocking(move || command.output());
    output.await.unwrap().unwrap()
}

/// Publishes clicks of several links, kinds and days, among them records that cannot be counted, and counts them.
async fn counted(fixture: &ClickFixture, recorder: &mut TestRecorder, now: OffsetDateTime) {
    let made: Vec<Click> = (0..120)
        .map(|index| {
            let mut click = click(index % 24, now - Duration::hours(11 * (index % 7) as i64));
            click.details.visitor = Some((index % 13) as u64);
            if index % 5 == 0 {
                click.kind = ClickKind::Bot;
            }
            click
        })
        .collect();
    let refused = format!(
        "ALTER TABLE clicks.link_values ADD CHECK (link_id <> '{}')",
        made[17].link_id.uuid()
    );
    let refused = sqlx::query(AssertSqlSafe(refused));
    refused.execute(fixture.pool()).await.unwrap();
    fixture.publish(recorder, &made).await;
    let partition = partition_of(made[0].link_id);
    fixture.publish_record(partition, &[], b"no headers").await;
    fixture.publish_as(recorder.id, 1, &made[0]).await;
    fixture.count().await;
}

async fn damage(pool: &PgPool) {
    raw_sql(
        "DELETE FROM clicks.link_15min;
         UPDATE clicks.account_15min SET bots = bots + 3;
         UPDATE clicks.link_days SET clicks = 2 * clicks, visitors = NULL;
         UPDATE clicks.account_days SET clicks = clicks + 1;
         TRUNCATE clicks.link_values, clicks.account_values;",
    )
    .execute(pool)
    .await
    .unwrap();
}

async fn positions(pool: &PgPool) -> Vec<StoredPosition> {
    sqlx::query_as(
        "SELECT partition, next_offset, last_record_id FROM clicks.positions ORDER BY partition",
    )
    .fetch_all(pool)
    .await
    .unwrap()
}

fn refusal_of(error: &anyhow::Error) -> &RecountRefusal {
    let refusal = error.downcast_ref();
    refusal.unwrap_or_else(|| panic!("no refusal: {error:#}"))
}

#[tokio::test]
async fn recount_makes_statistics_as_before_damage() {
    let fixture = ClickFixture::new().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    counted(&fixture, &mut recorder, now).await;
    let (statistics, at) = (
        stored(fixture.pool()).await,
        positions(fixture.pool()).await,
    );
    let from = (now - Duration::days(4)).date();
    damage(fixture.pool()).await;
    let report = recount(&fixture, scope(from, true)).await.unwrap();
    assert_eq!(stored(fixture.pool()).await, statistics);
    assert_eq!(positions(fixture.pool()).await, at);
    assert_eq!((report.records, report.clicks), (122, Some(116)));
    // A second time, and with clicks that arrive later.
    recount(&fixture, scope(from, false)).await.unwrap();
    assert_eq!(stored(fixture.pool()).await, statistics);
    fixture.publish(&mut recorder, &[click(1, now)]).await;
    let before = clicks(fixture.pool()).await;
    recount(&fixture, scope(from, false)).await.unwrap();
    assert_eq!(clicks(fixture.pool()).await, before);
    fixture.count().await;
    assert_eq!(clicks(fixture.pool()).await, before + 1);
}

#[tokio::test]
async fn recount_makes_no_click_an_event_again() {
    let fixture = ClickFixture::new().await;
    create_accounts(&fixture).await;
    subscribe(&fixture, 0, |_| {}).await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    counted(&fixture, &mut recorder, now).await;
    let pool = fixture.pool();
    let events = (first_clicks(pool).await, minutes(pool).await);
    assert!(!events.0.is_empty() && !events.1.is_empty(), "{events:?}");
    let scope = scope((now - Duration::days(4)).date(), true);
    recount(&fixture, scope).await.unwrap();
    assert_eq!((first_clicks(pool).await, minutes(pool).await), events);
    // A subscription makes none of the clicks before.
    raw_sql("TRUNCATE clicks.first_clicks, clicks.link_minutes")
        .execute(pool)
        .await
        .unwrap();
    subscribe(&fixture, 1, |_| {}).await;
    recount(&fixture, scope).await.unwrap();
    assert!(first_clicks(pool).await.is_empty());
    assert!(minutes(pool).await.is_empty());
}

#[tokio::test]
async fn recount_keeps_statistics_before_its_first_day() {
    let fixture = ClickFixture::new().await;
    let mut recorder = TestRecorder::new();
    let today = SystemClock.now().date();
    let begin = today.midnight().assume_utc();
    let made = [
        click(1, begin - Duration::MILLISECOND),
        click(1, begin),
        click(1, begin - Duration::days(3)),
    ];
    fixture.publish(&mut recorder, &made).await;
    fixture.count().await;
    damage(fixture.pool()).await;
    recount(&fixture, scope(today, true)).await.unwrap();
    let days: Vec<(i64, bool)> =
        sqlx::query_as("SELECT clicks, visitors IS NOT NULL FROM clicks.link_days ORDER BY day")
            .fetch_all(fixture.pool())
            .await
            .unwrap();
    assert_eq!(days, [(2, false), (2, false), (1, true)]);
    let values: i64 = sqlx::query_scalar("SELECT count(*) FROM clicks.link_values WHERE day < $1")
        .bind(today)
        .fetch_one(fixture.pool())
        .await
        .unwrap();
    assert_eq!(values, 0);
}

#[tokio::test]
async fn killed_recount_leaves_statistics_and_aggregation() {
    let fixture = ClickFixture::new().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    counted(&fixture, &mut recorder, now).await;
    damage(fixture.pool()).await;
    let damaged = stored(fixture.pool()).await;
    let from = (now - Duration::days(4)).date().to_string();
    let arguments = ["--accept-fewer", "--from", &from];
    let killed = command(&fixture, "clicks.recounted:1", &arguments).await;
    assert!(!killed.status.success(), "{killed:?}");
    assert_eq!(stored(fixture.pool()).await, damaged);
    let before = clicks(fixture.pool()).await;
    fixture.publish(&mut recorder, &[click(1, now)]).await;
    fixture.count().await;
    assert_eq!(clicks(fixture.pool()).await, before + 1);
    let again = command(&fixture, "none:1", &arguments).await;
    assert!(again.status.success(), "{again:?}");
    assert_eq!(clicks(fixture.pool()).await, 93);
}

#[tokio::test]
async fn recounts_beside_the_aggregation_count_each_click_once() {
    let fixture = ClickFixture::new().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    counted(&fixture, &mut recorder, now).await;
    let aggregation = fixture.aggregation();
    let scope = scope((now - Duration::days(4)).date(), false);
    for _ in 0..5 {
        let made: Vec<Click> = (0..24).map(|link| click(link, now)).collect();
        fixture.publish(&mut recorder, &made).await;
        recount(&fixture, scope).await.unwrap();
    }
    aggregation.count_to_end().await;
    // One link is refused.
    assert_eq!(clicks(fixture.pool()).await, 92 + 5 * 23);
    let counted = stored(fixture.pool()).await;
    recount(&fixture, scope).await.unwrap();
    assert_eq!(stored(fixture.pool()).await, counted);
}

#[tokio::test]
async fn dry_run_of_recount_changes_nothing() {
    let fixture = ClickFixture::new().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    counted(&fixture, &mut recorder, now).await;
    damage(fixture.pool()).await;
    let damaged = stored(fixture.pool()).await;
    let from = (now - Duration::days(1)).date();
    let hours = (0..120).map(|index| now - Duration::hours(11 * (index % 7)));
    // A record is there twice.
    let of_days = 1 + hours.filter(|at| at.date() >= from).count();
    assert!((30..120).contains(&of_days), "{of_days}");
    let from = from.to_string();
    let shown = command(
        &fixture,
        "none:1",
        &["--from", &from, "--dry-run", "--json"],
    )
    .await;
    let report: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(report["dry_run"], true);
    assert_eq!(
        (&report["records"], &report["records_of_days"]),
        (&122.into(), &of_days.into())
    );
    let shown = command(&fixture, "none:1", &["--from", &from, "--dry-run"]).await;
    let text = String::from_utf8(shown.stdout).unwrap();
    let read = format!("122 records of the topic were read, {of_days} of them with clicks");
    assert!(text.contains(&read), "{text}");
    assert_eq!(stored(fixture.pool()).await, damaged);
    let future = (now + Duration::days(2)).date().to_string();
    let refused = command(&fixture, "none:1", &["--from", &future]).await;
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("the time is in the future"), "{text}");
}

#[tokio::test]
async fn recount_refuses_another_topic() {
    let fixture = ClickFixture::new().await;
    let now = SystemClock.now();
    counted(&fixture, &mut TestRecorder::new(), now).await;
    let statistics = stored(fixture.pool()).await;
    let fixture = fixture.with_other_broker().await;
    for _ in 0..2 {
        let error = recount(&fixture, scope(now.date(), true))
            .await
            .unwrap_err();
        let refusal = refusal_of(&error);
        assert!(
            matches!(refusal, RecountRefusal::OtherTopic { .. }),
            "{refusal}"
        );
        assert!(failure::text(&error).contains("the statistics are as before"));
        assert_eq!(stored(fixture.pool()).await, statistics);
        // A topic that is long enough has other records.
        let made: Vec<_> = (0..200).map(|link| click(link % 24, now)).collect();
        fixture.publish(&mut TestRecorder::new(), &made).await;
    }
}

#[tokio::test]
async fn recount_refuses_new_topic_before_its_repeats_are_read() {
    let fixture = ClickFixture::new().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    let made: Vec<_> = (0..6).map(|_| click(1, now)).collect();
    fixture.publish(&mut recorder, &made).await;
    let other = TestRecorder::new();
    fixture.publish_as(other.id, 1, &made[0]).await;
    fixture.count().await;
    let statistics = stored(fixture.pool()).await;
    let fixture = fixture.with_other_broker().await;
    for sequence in 1..=3 {
        fixture.publish_as(recorder.id, sequence, &made[0]).await;
    }
    fixture.count().await;
    // Repeats of a recorder that was read in part, then of one that was not read at all.
    for (repeated, sequences) in [(recorder.id, 4..=6), (other.id, 1..=1)] {
        for sequence in sequences {
            fixture.publish_as(repeated, sequence, &made[0]).await;
        }
        let error = recount(&fixture, scope(now.date(), true))
            .await
            .unwrap_err();
        let refusal = refusal_of(&error);
        assert!(
            matches!(refusal, RecountRefusal::Unread { .. }),
            "{refusal}"
        );
        assert_eq!(stored(fixture.pool()).await, statistics);
        fixture.count().await;
    }
    let report = recount(&fixture, scope(now.date(), false)).await.unwrap();
    assert_eq!((report.clicks_before, report.clicks), (7, Some(7)));
    assert_eq!(stored(fixture.pool()).await, statistics);
}

#[tokio::test]
async fn recount_refuses_another_recount_in_progress() {
    let fixture = ClickFixture::new().await;
    let mut other = PoolTransaction::begin(fixture.pool()).await.unwrap();
    raw_sql("SELECT pg_advisory_xact_lock(hashtext('linkledger recount'))")
        .execute(&mut *other)
        .await
        .unwrap();
    let today = SystemClock.now().date();
    let error = recount(&fixture, scope(today, false)).await.unwrap_err();
    let refusal = error.downcast_ref::<RecountRefusal>();
    assert_eq!(refusal, Some(&RecountRefusal::InProgress));
    other.rollback().await.unwrap();
    recount(&fixture, scope(today, false)).await.unwrap();
}

#[tokio::test]
async fn recount_refuses_days_too_old_to_be_counted() {
    let fixture = ClickFixture::new().await;
    let from = (SystemClock.now() - Duration::days(801)).date();
    let error = recount(&fixture, scope(from, true)).await.unwrap_err();
    let refusal = refusal_of(&error);
    assert!(
        matches!(refusal, RecountRefusal::TooOld { .. }),
        "{refusal}"
    );
}

#[tokio::test]
async fn recount_refuses_fewer_clicks_unless_accepted() {
    let fixture = ClickFixture::new().await;
    let now = SystemClock.now();
    counted(&fixture, &mut TestRecorder::new(), now).await;
    let from = (now - Duration::days(4)).date();
    damage(fixture.pool()).await;
    let damaged = stored(fixture.pool()).await;
    let error = recount(&fixture, scope(from, false)).await.unwrap_err();
    let refusal = refusal_of(&error);
    assert!(matches!(refusal, RecountRefusal::Fewer { .. }), "{refusal}");
    assert_eq!(stored(fixture.pool()).await, damaged);
    recount(&fixture, scope(from, true)).await.unwrap();
}

#[tokio::test]
async fn recount_refuses_expired_records_unless_accepted() {
    let fixture = ClickFixture::new().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    let one = click(1, now);
    let partition = partition_of(one.link_id);
    fixture
        .publish(&mut recorder, std::slice::from_ref(&one))
        .await;
    fixture.count().await;
    fixture.fixture.broker.expire_first_click(partition).await;
    fixture.publish(&mut recorder, &[one]).await;
    fixture.count().await;
    let error = recount(&fixture, scope(now.date(), false))
        .await
        .unwrap_err();
    let refusal = refusal_of(&error);
    assert!(
        matches!(refusal, RecountRefusal::Expired { .. }),
        "{refusal}"
    );
    assert_eq!(clicks(fixture.pool()).await, 2);
    let report = recount(&fixture, scope(now.date(), true)).await.unwrap();
    assert_eq!((report.clicks_before, report.clicks), (2, Some(1)));
}

#[tokio::test]
async fn operator_grants_suffice_to_recount() {
    let fixture = ClickFixture::new().await;
    raw_sql(ROLES).execute(fixture.pool()).await.unwrap();
    let now = SystemClock.now();
    counted(&fixture, &mut TestRecorder::new(), now).await;
    let statistics = stored(fixture.pool()).await;
    let from = (now - Duration::days(4)).date();
    let databases = Databases {
        read: pool_of(&fixture, "linkledger_operator"),
        ..fixture.fixture.databases(SessionKind::Writer, 1)
    };
    let recounted = recount_of(&fixture, &databases, scope(from, false)).await;
    recounted.unwrap();
    assert_eq!(stored(fixture.pool()).await, statistics);
    let rows: Vec<(String, String)> = sqlx::query_as(
        "SELECT command, detail FROM read_model.operations WHERE command = 'recount'",
    )
    .fetch_all(fixture.pool())
    .await
    .unwrap();
    let detail = "116 clicks of 122 records, 116 clicks before";
    assert_eq!(rows, [("recount".to_owned(), detail.to_owned())]);
}
