//! Heartbeats of a recorder, and its end.

use std::time::Duration;

use linkledger_clicks::click_partition;
use linkledger_core::clock::Clock as _;
use linkledger_event_store::transaction::PoolTransaction;
use linkledger_testing as testing;
use sqlx::PgPool;
use time::OffsetDateTime;

use super::fixture::{ClickFixture, FIREFOX, Received};

const AGENT: [(&str, &str); 1] = [("user-agent", FIREFOX)];

/// Returns the heartbeats, in order.
async fn heartbeats(pool: &PgPool) -> Vec<(OffsetDateTime, Vec<i64>)> {
    sqlx::query_as(
        "SELECT recorded_until, sequences FROM clicks.heartbeats ORDER BY recorded_until",
    )
    .fetch_all(pool)
    .await
    .unwrap()
}

/// Records that the clicks of a partition are counted up to a sequence.
async fn count_to(pool: &PgPool, partition: u8, sequence: i64) {
    sqlx::query(
        "INSERT INTO clicks.sequences (partition, recorder_id, sequence, counted_at)
         SELECT $1, recorder_id, $2, now() FROM clicks.recorders
         ON CONFLICT (partition, recorder_id) DO UPDATE SET sequence = excluded.sequence",
    )
    .bind(i16::from(partition))
    .bind(sequence)
    .execute(pool)
    .await
    .unwrap();
}

/// Advances the clock, and waits for a heartbeat of the new time.
async fn beat(fixture: &ClickFixture) {
    fixture.service.clock.advance(Duration::from_secs(1));
    let now = fixture.service.clock.now();
    testing::eventually("a heartbeat of now", async || {
        let newest = heartbeats(fixture.service.pool()).await.pop()?;
        (newest.0 == now).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recorder_is_registered_before_first_request() {
    let fixture = ClickFixture::start().await;
    let recorders: Vec<(OffsetDateTime, bool)> =
        sqlx::query_as("SELECT started_at, ended_at IS NULL FROM clicks.recorders")
            .fetch_all(fixture.service.pool())
            .await
            .unwrap();
    assert_eq!(recorders, [(fixture.service.clock.now(), true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_have_the_last_sequences() {
    let fixture = ClickFixture::start().await;
    let link = fixture.link("spring").await;
    let partition = click_partition(link.link.link_id);
    for _ in 0..3 {
        fixture.visit("spring", &AGENT).await;
    }
    fixture.received(3).await;
    beat(&fixture).await;
    let mut expected = vec![0; 16];
    expected[usize::from(partition)] = 3;
    let newest = heartbeats(fixture.service.pool()).await.pop().unwrap();
    assert_eq!(newest.1, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_before_the_counted_one_are_deleted() {
    let fixture = ClickFixture::start().await;
    let link = fixture.link("spring").await;
    let partition = click_partition(link.link.link_id);
    for _ in 0..3 {
        fixture.visit("spring", &AGENT).await;
        beat(&fixture).await;
    }
    assert!(heartbeats(fixture.service.pool()).await.len() >= 3);
    count_to(fixture.service.pool(), partition, 2).await;
    beat(&fixture).await;
    let index = usize::from(partition);
    let kept = heartbeats(fixture.service.pool()).await;
    assert_eq!(kept[0].1[index], 2, "{kept:?}");
    count_to(fixture.service.pool(), partition, 3).await;
    beat(&fixture).await;
    beat(&fixture).await;
    let kept = heartbeats(fixture.service.pool()).await;
    assert!(kept.len() <= 2, "{kept:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn number_of_heartbeats_is_bounded() {
    let fixture = ClickFixture::start().await;
    fixture.link("spring").await;
    fixture.visit("spring", &AGENT).await;
    fixture.received(1).await;
    beat(&fixture).await;
    // An aggregation that lags has passed only the oldest of these. The next heartbeat is later than all: an
    // earlier one would withdraw them.
    sqlx::query(
        "INSERT INTO clicks.heartbeats (recorder_id, recorded_until, sequences)
         SELECT recorder_id, started_at + n * interval '1 ms', array_fill((n > 1)::int::bigint, ARRAY[16])
         FROM clicks.recorders, generate_series(1, 200) AS n",
    )
    .execute(fixture.service.pool())
    .await
    .unwrap();
    let oldest = fixture.service.clock.now() - Duration::from_millis(999);
    for _ in 0..3 {
        beat(&fixture).await;
    }
    let kept = heartbeats(fixture.service.pool()).await;
    assert!(kept.len() <= 100, "{}", kept.len());
    assert_eq!(kept[0], (oldest, vec![0; 16]));
    assert!(kept[1].0 < oldest + Duration::from_millis(10), "{kept:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn orderly_end_is_recorded_with_all_sequences() {
    let fixture = ClickFixture::start().await;
    let link = fixture.link("spring").await;
    for _ in 0..7 {
        fixture.visit("spring", &AGENT).await;
    }
    fixture.service.clock.advance(Duration::from_secs(1));
    let (database, received) = fixture.stop().await;
    assert_eq!(received.len(), 7);
    let newest = heartbeats(database.pool()).await.pop().unwrap();
    assert_eq!(newest.1[usize::from(click_partition(link.link.link_id))], 7);
    let ended: Vec<bool> =
        sqlx::query_scalar("SELECT ended_at <= seen_at + interval '1 min' FROM clicks.recorders")
            .fetch_all(database.pool())
            .await
            .unwrap();
    assert_eq!(ended, [true]);
}

/// Panics if a click that is not counted is before `complete_until`, and returns the latter.
async fn assert_promise(
    fixture: &ClickFixture,
    received: &[Received],
    counted: u64,
) -> OffsetDateTime {
    let statement = "SELECT clicks.complete_until()";
    let until: OffsetDateTime = sqlx::query_scalar(statement)
        .fetch_one(fixture.service.pool())
        .await
        .unwrap();
    for it in received.iter().filter(|it| it.place.sequence > counted) {
        let clicked_at = it.click.clicked_at;
        assert!(clicked_at >= until, "{clicked_at} is before {until}");
    }
    until
}

#[tokio::test(flavor = "multi_thread")]
async fn set_back_clock_never_claims_uncounted_clicks() {
    let fixture = ClickFixture::start().await;
    let pool = fixture.service.pool();
    let link = fixture.link("spring").await;
    let partition = click_partition(link.link.link_id);
    sqlx::query("UPDATE clicks.positions SET read_to_end_at = '2026-11-20T08:00:00Z'")
        .execute(pool)
        .await
        .unwrap();
    let before = fixture.service.clock.now();
    fixture.service.clock.advance(Duration::from_hours(1));
    fixture.visit("spring", &AGENT).await;
    fixture.received(1).await;
    beat(&fixture).await;
    count_to(pool, partition, 1).await;
    let ahead = assert_promise(&fixture, &[], 0).await;
    assert_eq!(ahead, before + Duration::from_secs(3_601));
    // No heartbeat can be written after the step back.
    let mut outage = PoolTransaction::begin(pool).await.unwrap();
    sqlx::query("LOCK TABLE clicks.heartbeats IN SHARE MODE")
        .execute(&mut *outage)
        .await
        .unwrap();
    fixture.service.clock.set_back(Duration::from_hours(1));
    for clicks in 2..8 {
        fixture.visit("spring", &AGENT).await;
        // The next click comes after another drain.
        fixture.received(clicks).await;
    }
    fixture.visit("spring", &AGENT).await;
    let received = fixture.received(8).await;
    assert_eq!(assert_promise(&fixture, &received, 1).await, ahead);
    outage.commit().await.unwrap();
    beat(&fixture).await;
    let now = fixture.service.clock.now();
    let corrected = assert_promise(&fixture, &received, 1).await;
    assert!(before < corrected && corrected <= now, "{corrected}");
    // Clicks have the corrected time again.
    let is_corrected = async || {
        fixture.visit("spring", &AGENT).await;
        let received = fixture.received(9).await;
        let last = received.into_iter().max_by_key(|it| it.place.sequence)?;
        (last.click.clicked_at == now).then_some(())
    };
    testing::eventually("clicks follow the clock that was set back", is_corrected).await;
    let all = fixture.received(9).await;
    assert_promise(&fixture, &all, 1).await;
}
