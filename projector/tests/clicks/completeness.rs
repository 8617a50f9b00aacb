//! `clicks.complete_until`: living, ended and dead recorders; a paused aggregation.

use linkledger_clicks::RecorderId;
use linkledger_core::clock::{Clock as _, SystemClock};
use linkledger_projector::clicks::housekeeping::prune_recorders;
use linkledger_testing::eventually;
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};

use super::click_fixture::{ClickFixture, RunningAggregation, TestRecorder, click, clicks};

/// Writes the row of a recorder, last seen `silent` ago.
async fn register(pool: &PgPool, id: RecorderId, started_at: OffsetDateTime, silent: Duration) {
    sqlx::query(
        "INSERT INTO clicks.recorders (recorder_id, started_at, seen_at)
         VALUES ($1, $2, now() - make_interval(secs => $3))",
    )
    .bind(id.0)
    .bind(started_at)
    .bind(silent.as_seconds_f64())
    .execute(pool)
    .await
    .unwrap();
}

/// Makes every partition one that was read to its end long ago.
async fn read_long_ago(pool: &PgPool) {
    sqlx::query("UPDATE clicks.positions SET read_to_end_at = '2020-01-01T00:00:00Z'")
        .execute(pool)
        .await
        .unwrap();
}

/// Writes a heartbeat with the recorder's sequences of now.
async fn beat(pool: &PgPool, recorder: &TestRecorder, until: OffsetDateTime) {
    let sequences = recorder.sequences.map(u64::cast_signed);
    sqlx::query("INSERT INTO clicks.heartbeats VALUES ($1, $2, $3)")
        .bind(recorder.id.0)
        .bind(until)
        .bind(&sequences[..])
        .execute(pool)
        .await
        .unwrap();
}

async fn lag_seconds(pool: &PgPool) -> f64 {
    let statement = "SELECT clicks.lag_seconds()";
    sqlx::query_scalar(statement).fetch_one(pool).await.unwrap()
}

/// Returns the instant, and the clock of the database before.
async fn complete_until(pool: &PgPool) -> (OffsetDateTime, OffsetDateTime) {
    sqlx::query_as("SELECT clicks.complete_until(), now()")
        .fetch_one(pool)
        .await
        .unwrap()
}

/// Returns the last heartbeat or end of a recorder.
async fn last_sign(pool: &PgPool) -> OffsetDateTime {
    let statement = "SELECT max(greatest(seen_at, ended_at)) FROM clicks.recorders";
    sqlx::query_scalar(statement).fetch_one(pool).await.unwrap()
}

/// Waits until every partition is read to its end after this moment.
async fn read_to_end(fixture: &ClickFixture) -> RunningAggregation {
    let aggregation = fixture.aggregation();
    let begun: OffsetDateTime = sqlx::query_scalar("SELECT clock_timestamp()")
        .fetch_one(fixture.pool())
        .await
        .unwrap();
    let is_read = async || {
        let read: Option<OffsetDateTime> = sqlx::query_scalar(
            "SELECT min(coalesce(read_to_end_at, '-infinity')) FROM clicks.positions
             HAVING bool_and(read_to_end_at IS NOT NULL)",
        )
        .fetch_optional(fixture.pool())
        .await
        .unwrap();
        read.is_some_and(|read| read > begun).then_some(())
    };
    eventually("all partitions are read to their end", is_read).await;
    aggregation
}

#[tokio::test]
async fn living_recorder_is_complete_to_its_counted_heartbeat() {
    let fixture = ClickFixture::new().await;
    let pool = fixture.pool();
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    let [started, first, second] = [60, 40, 20].map(|ago| now - Duration::seconds(ago));
    // Without a recorder there are no clicks to count.
    assert_eq!(lag_seconds(pool).await.to_bits(), 0.0_f64.to_bits());
    register(pool, recorder.id, started, Duration::ZERO).await;
    assert_eq!(complete_until(pool).await.0, OffsetDateTime::UNIX_EPOCH);
    let lag = lag_seconds(pool).await;
    assert!((60.0..3_600.0).contains(&lag), "{lag}");
    read_long_ago(pool).await;
    assert_eq!(complete_until(pool).await.0, started);
    fixture
        .publish(&mut recorder, &[click(1, started), click(2, started)])
        .await;
    beat(pool, &recorder, first).await;
    assert_eq!(complete_until(pool).await.0, started);
    fixture.count().await;
    assert_eq!(complete_until(pool).await.0, first);
    // A heartbeat of clicks that are not published yet.
    recorder.sequences[5] += 1;
    beat(pool, &recorder, second).await;
    assert_eq!(complete_until(pool).await.0, first);
    recorder.sequences[5] -= 1;
    fixture.publish(&mut recorder, &[click(5, second)]).await;
    fixture.count().await;
    assert_eq!(complete_until(pool).await.0, second);
    assert_eq!(clicks(pool).await, 3);
}

#[tokio::test]
async fn ended_recorder_counts_until_topic_is_read_to_its_end() {
    let fixture = ClickFixture::new().await;
    let pool = fixture.pool();
    let mut recorder = TestRecorder::new();
    let started = SystemClock.now() - Duration::seconds(60);
    fixture.publish(&mut recorder, &[click(1, started)]).await;
    register(pool, recorder.id, started, Duration::ZERO).await;
    // Read to the end after the last heartbeat, and before the last acknowledgements.
    for statement in [
        "UPDATE clicks.recorders SET seen_at = now() - interval '50 s', ended_at = now()",
        "UPDATE clicks.positions SET read_to_end_at = now() - interval '30 s'",
    ] {
        sqlx::query(statement).execute(pool).await.unwrap();
    }
    assert_eq!(complete_until(pool).await.0, started);
    let aggregation = read_to_end(&fixture).await;
    assert_eq!(complete_until(pool).await.0, last_sign(pool).await);
    assert_eq!(lag_seconds(pool).await.to_bits(), 0.0_f64.to_bits());
    assert_eq!(clicks(pool).await, 1);
    aggregation.stop().await;
}

#[tokio::test]
async fn statistics_without_living_recorder_end_with_its_last_sign() {
    let fixture = ClickFixture::new().await;
    let pool = fixture.pool();
    read_long_ago(pool).await;
    // Clicks are switched off from the first start on.
    assert_eq!(complete_until(pool).await.0, OffsetDateTime::UNIX_EPOCH);
    assert_eq!(lag_seconds(pool).await.to_bits(), 0.0_f64.to_bits());
    let started = SystemClock.now() - Duration::days(9);
    let [older, last, living] = [8, 3, 0].map(Duration::days);
    for silent in [older, last] {
        register(pool, TestRecorder::new().id, started, silent).await;
    }
    sqlx::query("UPDATE clicks.positions SET read_to_end_at = now()")
        .execute(pool)
        .await
        .unwrap();
    assert_eq!(complete_until(pool).await.0, last_sign(pool).await);
    assert_eq!(lag_seconds(pool).await.to_bits(), 0.0_f64.to_bits());
    // The last recorder tells it for ever.
    assert_eq!(prune_recorders(pool).await.unwrap(), 1);
    assert_eq!(complete_until(pool).await.0, last_sign(pool).await);
    // Clicks are switched on again.
    register(pool, TestRecorder::new().id, started, living).await;
    assert_eq!(complete_until(pool).await.0, started);
    assert_eq!(prune_recorders(pool).await.unwrap(), 1);
}

#[tokio::test]
async fn dead_recorder_counts_for_a_minute_longer() {
    let fixture = ClickFixture::new().await;
    let pool = fixture.pool();
    let (dead, long_dead) = (TestRecorder::new(), TestRecorder::new());
    let started = SystemClock.now() - Duration::seconds(600);
    register(pool, long_dead.id, started, Duration::seconds(300)).await;
    read_long_ago(pool).await;
    assert_eq!(complete_until(pool).await.0, started);
    let aggregation = read_to_end(&fixture).await;
    assert_eq!(complete_until(pool).await.0, last_sign(pool).await);
    aggregation.stop().await;
    // Silent for a little more than 60 s: records may still be on their way to the broker.
    register(pool, dead.id, started, Duration::seconds(61)).await;
    let read = "UPDATE clicks.positions SET read_to_end_at =
                    (SELECT seen_at + interval '59 s' FROM clicks.recorders WHERE recorder_id = $1)";
    sqlx::query(read)
        .bind(dead.id.0)
        .execute(pool)
        .await
        .unwrap();
    assert_eq!(complete_until(pool).await.0, started);
}

#[tokio::test]
async fn paused_aggregation_stays_and_continues_after_resume() {
    let fixture = ClickFixture::new().await;
    let pool = fixture.pool();
    let mut recorder = TestRecorder::new();
    let aggregation = read_to_end(&fixture).await;
    let run = async |statement| sqlx::query(statement).execute(pool).await.unwrap();
    run("UPDATE clicks.positions SET paused_at = now()").await;
    let now = SystemClock.now();
    fixture
        .publish(&mut recorder, &[click(1, now), click(2, now)])
        .await;
    // The click of partition 1 was due before that of partition 2 is counted.
    run("UPDATE clicks.positions SET paused_at = NULL WHERE partition = 2").await;
    let counted = async |count| (clicks(pool).await >= count).then_some(());
    eventually("partition 2 is counted", || counted(1)).await;
    assert_eq!(clicks(pool).await, 1);
    run("UPDATE clicks.positions SET paused_at = NULL").await;
    eventually("the click is counted after the resume", || counted(2)).await;
    aggregation.stop().await;
}
