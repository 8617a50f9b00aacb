//! Every click counts once: duplicates, gaps, restarts at any point, several projectors.

use std::collections::BTreeSet;

use linkledger_core::{
    clock::{Clock as _, SystemClock},
    shard::Shard,
};
use linkledger_testing::eventually;
use sqlx::{PgPool, raw_sql};
use tokio::sync::watch;

use super::click_fixture::{ClickFixture, TestRecorder, click, clicks, missing};

/// Keeps the table of sequences empty, so that only positions prevent repeats.
async fn forget_sequences(pool: &PgPool) {
    raw_sql(
        "CREATE FUNCTION clicks.forget() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER forget BEFORE INSERT ON clicks.sequences
         FOR EACH ROW EXECUTE FUNCTION clicks.forget()",
    )
    .execute(pool)
    .await
    .unwrap();
}

#[tokio::test]
async fn repeated_records_count_once_and_gaps_are_missing() {
    let fixture = ClickFixture::new().await;
    let recorder = TestRecorder::new();
    let now = SystemClock.now();
    for sequence in [1, 2, 2, 1, 5, 4, 5, 6] {
        fixture
            .publish_as(recorder.id, sequence, &click(1, now))
            .await;
    }
    fixture.count().await;
    assert_eq!(clicks(fixture.pool()).await, 4);
    assert_eq!(missing(fixture.pool()).await, 2);
    // The records of another recorder have sequences of their own.
    fixture
        .publish(&mut TestRecorder::new(), &[click(1, now)])
        .await;
    fixture.count().await;
    assert_eq!(clicks(fixture.pool()).await, 5);
}

#[tokio::test]
async fn aggregation_killed_at_any_point_counts_once() {
    let fixture = ClickFixture::new().await;
    forget_sequences(fixture.pool()).await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    for round in 0..8 {
        let made: Vec<_> = (0..60).map(|link| click(link, now)).collect();
        fixture.publish(&mut recorder, &made).await;
        let aggregation = fixture.aggregation();
        let some_are_counted = async || (clicks(fixture.pool()).await > 60 * round).then_some(());
        eventually("some clicks are counted", some_are_counted).await;
        aggregation.abort().await;
    }
    fixture.count().await;
    assert_eq!(clicks(fixture.pool()).await, 8 * 60);
}

#[tokio::test]
async fn shards_move_between_projectors_and_clicks_count_once() {
    let fixture = ClickFixture::new().await;
    // The other tests show that repeats are dropped.
    forget_sequences(fixture.pool()).await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    let shards = |numbers: std::ops::Range<usize>| -> BTreeSet<Shard> {
        Shard::all()
            .filter(|shard| numbers.contains(&shard.index()))
            .collect()
    };
    let (of_first, claimed_by_first) = watch::channel(shards(0..16));
    let (of_second, claimed_by_second) = watch::channel(shards(0..0));
    let first = fixture.aggregation_in(claimed_by_first);
    let second = fixture.aggregation_in(claimed_by_second);
    let mut expected = 0;
    // The second one takes half of the shards, then all, then both have all for a while.
    for (first, second) in [
        (0..16, 0..0),
        (0..8, 8..16),
        (0..0, 0..16),
        (0..16, 0..16),
        (3..16, 0..3),
    ] {
        let made: Vec<_> = (0..100).map(|link| click(link, now)).collect();
        fixture.publish(&mut recorder, &made[..50]).await;
        of_first.send_replace(shards(first));
        of_second.send_replace(shards(second));
        fixture.publish(&mut recorder, &made[50..]).await;
        expected += 100;
        let all_are_counted = async || (clicks(fixture.pool()).await == expected).then_some(());
        eventually("all clicks are counted", all_are_counted).await;
    }
    first.stop().await;
    of_second.send_replace(shards(0..16));
    second.count_to_end().await;
    fixture.count().await;
    assert_eq!(clicks(fixture.pool()).await, expected);
}

#[tokio::test]
async fn projectors_with_the_same_shards_count_once() {
    let fixture = ClickFixture::new().await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    // Both read every record: only the position decides.
    forget_sequences(fixture.pool()).await;
    let mut expected = 0;
    for _ in 0..3 {
        let aggregations = [(); 2].map(|()| fixture.aggregation());
        let made: Vec<_> = (0..100).map(|link| click(link, now)).collect();
        fixture.publish(&mut recorder, &made).await;
        expected += 100;
        for aggregation in aggregations {
            aggregation.count_to_end().await;
        }
        assert_eq!(clicks(fixture.pool()).await, expected);
    }
}
