//! Recount: replaces figures from the topic in one transaction, or changes nothing.

use std::process::{Command, Output};

use linkledger_core::{
    click::{Click, ClickKind},
    clock::{Clock as _, SystemClock},
    databases::Databases,
    event_store::{SessionKind, transaction::PoolTransaction},
    failure,
};
use linkledger_projector::{
    clicks::recount::{RecountRefusal, RecountScope},
    operations::recount::{self, RecountReport},
    progress::ProgressReport,
};
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgPool, raw_sql};
use time::{Date, Duration, OffsetDateTime};

use super::{
    click_stage::{ClickStage, TestRecorder, click, clicks, partition_of},
    figures::stored,
    operation::{ROLES, pool_of},
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
    stage: &ClickStage,
    databases: &Databases,
    scope: RecountScope,
) -> anyhow::Result<RecountReport> {
    let kafka = stage.config().clicks.kafka(&stage.config().kafka).unwrap();
    let progress = ProgressReport::silent();
    recount::recount(databases, &kafka, scope, ("ada", None), &progress).await
}

async fn recount(stage: &ClickStage, scope: RecountScope) -> anyhow::Result<RecountReport> {
    let databases = stage.stage.databases(SessionKind::Writer, 2);
    recount_of(stage, &databases, scope).await
}

/// Runs `projector recount`.
async fn command(stage: &ClickStage, fail_at: &str, arguments: &[&str]) -> Output {
    let config = stage.config();
    let mut command = Command::new(env!("CARGO_BIN_EXE_projector"));
    command
        .arg("recount")
        .args(arguments)
        .env("DATABASE_URL", stage.stage.read.url())
        .env("LOG_DATABASE_URL", stage.stage.database.url())
        .env("LINKLEDGER_FAIL_AT", fail_at)
        .env("LINKLEDGER_OPERATOR", "ada")
        .env("KAFKA_CLICKS_TOPIC", config.clicks.clicks_topic.to_string())
        .envs(config.kafka.environment());
    let output = tokio::task::spawn_blocking(move || command.output());
    output.await.unwrap().unwrap()
}

/// Publishes clicks of several links, kinds and days, among them records that cannot be counted, and counts them.
async fn counted(stage: &ClickStage, recorder: &mut TestRecorder, now: OffsetDateTime) {
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
    refused.execute(stage.pool()).await.unwrap();
    stage.publish(recorder, &made).await;
    let partition = partition_of(made[0].link_id);
    stage.publish_record(partition, &[], b"no headers").await;
    stage.publish_as(recorder.id, 1, &made[0]).await;
    stage.count().await;
}

async fn damage(pool: &PgPool) {
    raw_sql(
        "DELETE FROM clicks.link_quarters;
         UPDATE clicks.account_quarters SET bots = bots + 3;
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
async fn recount_makes_figures_as_before_damage() {
    let stage = ClickStage::set().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    counted(&stage, &mut recorder, now).await;
    let (figures, at) = (stored(stage.pool()).await, positions(stage.pool()).await);
    let from = (now - Duration::days(4)).date();
    damage(stage.pool()).await;
    let report = recount(&stage, scope(from, true)).await.unwrap();
    assert_eq!(stored(stage.pool()).await, figures);
    assert_eq!(positions(stage.pool()).await, at);
    assert_eq!((report.records, report.clicks), (122, Some(116)));
    // A second time, and with clicks that arrive later.
    recount(&stage, scope(from, false)).await.unwrap();
    assert_eq!(stored(stage.pool()).await, figures);
    stage.publish(&mut recorder, &[click(1, now)]).await;
    let before = clicks(stage.pool()).await;
    recount(&stage, scope(from, false)).await.unwrap();
    assert_eq!(clicks(stage.pool()).await, before);
    stage.count().await;
    assert_eq!(clicks(stage.pool()).await, before + 1);
}

#[tokio::test]
async fn recount_keeps_figures_before_its_first_day() {
    let stage = ClickStage::set().await;
    let mut recorder = TestRecorder::new();
    let today = SystemClock.now().date();
    let begin = today.midnight().assume_utc();
    let made = [
        click(1, begin - Duration::MILLISECOND),
        click(1, begin),
        click(1, begin - Duration::days(3)),
    ];
    stage.publish(&mut recorder, &made).await;
    stage.count().await;
    damage(stage.pool()).await;
    recount(&stage, scope(today, true)).await.unwrap();
    let days: Vec<(i64, bool)> =
        sqlx::query_as("SELECT clicks, visitors IS NOT NULL FROM clicks.link_days ORDER BY day")
            .fetch_all(stage.pool())
            .await
            .unwrap();
    assert_eq!(days, [(2, false), (2, false), (1, true)]);
    let values: i64 = sqlx::query_scalar("SELECT count(*) FROM clicks.link_values WHERE day < $1")
        .bind(today)
        .fetch_one(stage.pool())
        .await
        .unwrap();
    assert_eq!(values, 0);
}

#[tokio::test]
async fn killed_recount_leaves_figures_and_counting() {
    let stage = ClickStage::set().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    counted(&stage, &mut recorder, now).await;
    damage(stage.pool()).await;
    let damaged = stored(stage.pool()).await;
    let from = (now - Duration::days(4)).date().to_string();
    let arguments = ["--accept-fewer", "--from", &from];
    let killed = command(&stage, "clicks.recounted:1", &arguments).await;
    assert!(!killed.status.success(), "{killed:?}");
    assert_eq!(stored(stage.pool()).await, damaged);
    let before = clicks(stage.pool()).await;
    stage.publish(&mut recorder, &[click(1, now)]).await;
    stage.count().await;
    assert_eq!(clicks(stage.pool()).await, before + 1);
    let again = command(&stage, "none:1", &arguments).await;
    assert!(again.status.success(), "{again:?}");
    assert_eq!(clicks(stage.pool()).await, 93);
}

#[tokio::test]
async fn recounts_beside_the_counting_count_each_click_once() {
    let stage = ClickStage::set().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    counted(&stage, &mut recorder, now).await;
    let counting = stage.counting();
    let scope = scope((now - Duration::days(4)).date(), false);
    for _ in 0..5 {
        let made: Vec<Click> = (0..24).map(|link| click(link, now)).collect();
        stage.publish(&mut recorder, &made).await;
        recount(&stage, scope).await.unwrap();
    }
    counting.count_to_end().await;
    // One link is refused.
    assert_eq!(clicks(stage.pool()).await, 92 + 5 * 23);
    let counted = stored(stage.pool()).await;
    recount(&stage, scope).await.unwrap();
    assert_eq!(stored(stage.pool()).await, counted);
}

#[tokio::test]
async fn dry_run_of_recount_changes_nothing() {
    let stage = ClickStage::set().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    counted(&stage, &mut recorder, now).await;
    damage(stage.pool()).await;
    let damaged = stored(stage.pool()).await;
    let from = (now - Duration::days(1)).date();
    let hours = (0..120).map(|index| now - Duration::hours(11 * (index % 7)));
    // A record is there twice.
    let of_days = 1 + hours.filter(|at| at.date() >= from).count();
    assert!((30..120).contains(&of_days), "{of_days}");
    let from = from.to_string();
    let shown = command(&stage, "none:1", &["--from", &from, "--dry-run", "--json"]).await;
    let report: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(report["dry_run"], true);
    assert_eq!(
        (&report["records"], &report["records_of_days"]),
        (&122.into(), &of_days.into())
    );
    let shown = command(&stage, "none:1", &["--from", &from, "--dry-run"]).await;
    let text = String::from_utf8(shown.stdout).unwrap();
    let read = format!("122 records of the topic were read, {of_days} of them with clicks");
    assert!(text.contains(&read), "{text}");
    assert_eq!(stored(stage.pool()).await, damaged);
    let future = (now + Duration::days(2)).date().to_string();
    let refused = command(&stage, "none:1", &["--from", &future]).await;
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("the time is in the future"), "{text}");
}

#[tokio::test]
async fn recount_refuses_another_topic() {
    let stage = ClickStage::set().await;
    let now = SystemClock.now();
    counted(&stage, &mut TestRecorder::new(), now).await;
    let figures = stored(stage.pool()).await;
    let stage = stage.with_other_broker().await;
    for _ in 0..2 {
        let error = recount(&stage, scope(now.date(), true)).await.unwrap_err();
        let refusal = refusal_of(&error);
        assert!(
            matches!(refusal, RecountRefusal::OtherTopic { .. }),
            "{refusal}"
        );
        assert!(failure::text(&error).contains("the figures are as before"));
        assert_eq!(stored(stage.pool()).await, figures);
        // A topic that is long enough has other records.
        let made: Vec<_> = (0..200).map(|link| click(link % 24, now)).collect();
        stage.publish(&mut TestRecorder::new(), &made).await;
    }
}

#[tokio::test]
async fn recount_refuses_new_topic_before_its_repeats_are_read() {
    let stage = ClickStage::set().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    let made: Vec<_> = (0..6).map(|_| click(1, now)).collect();
    stage.publish(&mut recorder, &made).await;
    let other = TestRecorder::new();
    stage.publish_as(other.id, 1, &made[0]).await;
    stage.count().await;
    let figures = stored(stage.pool()).await;
    let stage = stage.with_other_broker().await;
    for sequence in 1..=3 {
        stage.publish_as(recorder.id, sequence, &made[0]).await;
    }
    stage.count().await;
    // Repeats of a recorder that was read in part, then of one that was not read at all.
    for (repeated, sequences) in [(recorder.id, 4..=6), (other.id, 1..=1)] {
        for sequence in sequences {
            stage.publish_as(repeated, sequence, &made[0]).await;
        }
        let error = recount(&stage, scope(now.date(), true)).await.unwrap_err();
        let refusal = refusal_of(&error);
        assert!(
            matches!(refusal, RecountRefusal::Unread { .. }),
            "{refusal}"
        );
        assert_eq!(stored(stage.pool()).await, figures);
        stage.count().await;
    }
    let report = recount(&stage, scope(now.date(), false)).await.unwrap();
    assert_eq!((report.clicks_before, report.clicks), (7, Some(7)));
    assert_eq!(stored(stage.pool()).await, figures);
}

#[tokio::test]
async fn recount_refuses_another_recount_in_progress() {
    let stage = ClickStage::set().await;
    let mut other = PoolTransaction::begin(stage.pool()).await.unwrap();
    raw_sql("SELECT pg_advisory_xact_lock(hashtext('linkledger recount'))")
        .execute(&mut *other)
        .await
        .unwrap();
    let today = SystemClock.now().date();
    let error = recount(&stage, scope(today, false)).await.unwrap_err();
    let refusal = error.downcast_ref::<RecountRefusal>();
    assert_eq!(refusal, Some(&RecountRefusal::InProgress));
    other.rollback().await.unwrap();
    recount(&stage, scope(today, false)).await.unwrap();
}

#[tokio::test]
async fn recount_refuses_days_too_old_to_be_counted() {
    let stage = ClickStage::set().await;
    let from = (SystemClock.now() - Duration::days(801)).date();
    let error = recount(&stage, scope(from, true)).await.unwrap_err();
    let refusal = refusal_of(&error);
    assert!(
        matches!(refusal, RecountRefusal::TooOld { .. }),
        "{refusal}"
    );
}

#[tokio::test]
async fn recount_refuses_fewer_clicks_unless_accepted() {
    let stage = ClickStage::set().await;
    let now = SystemClock.now();
    counted(&stage, &mut TestRecorder::new(), now).await;
    let from = (now - Duration::days(4)).date();
    damage(stage.pool()).await;
    let damaged = stored(stage.pool()).await;
    let error = recount(&stage, scope(from, false)).await.unwrap_err();
    let refusal = refusal_of(&error);
    assert!(matches!(refusal, RecountRefusal::Fewer { .. }), "{refusal}");
    assert_eq!(stored(stage.pool()).await, damaged);
    recount(&stage, scope(from, true)).await.unwrap();
}

#[tokio::test]
async fn recount_refuses_expired_records_unless_accepted() {
    let stage = ClickStage::set().await;
    let (mut recorder, now) = (TestRecorder::new(), SystemClock.now());
    let one = click(1, now);
    let partition = partition_of(one.link_id);
    stage
        .publish(&mut recorder, std::slice::from_ref(&one))
        .await;
    stage.count().await;
    stage.stage.broker.expire_first_click(partition).await;
    stage.publish(&mut recorder, &[one]).await;
    stage.count().await;
    let error = recount(&stage, scope(now.date(), false)).await.unwrap_err();
    let refusal = refusal_of(&error);
    assert!(
        matches!(refusal, RecountRefusal::Expired { .. }),
        "{refusal}"
    );
    assert_eq!(clicks(stage.pool()).await, 2);
    let report = recount(&stage, scope(now.date(), true)).await.unwrap();
    assert_eq!((report.clicks_before, report.clicks), (2, Some(1)));
}

#[tokio::test]
async fn operator_grants_suffice_to_recount() {
    let stage = ClickStage::set().await;
    raw_sql(ROLES).execute(stage.pool()).await.unwrap();
    let now = SystemClock.now();
    counted(&stage, &mut TestRecorder::new(), now).await;
    let figures = stored(stage.pool()).await;
    let from = (now - Duration::days(4)).date();
    let databases = Databases {
        read: pool_of(&stage, "linkledger_operator"),
        ..stage.stage.databases(SessionKind::Writer, 1)
    };
    let recounted = recount_of(&stage, &databases, scope(from, false)).await;
    recounted.unwrap();
    assert_eq!(stored(stage.pool()).await, figures);
    let rows: Vec<(String, String)> = sqlx::query_as(
        "SELECT command, detail FROM read_model.operations WHERE command = 'recount'",
    )
    .fetch_all(stage.pool())
    .await
    .unwrap();
    let detail = "116 clicks of 122 records, 116 clicks before";
    assert_eq!(rows, [("recount".to_owned(), detail.to_owned())]);
}
