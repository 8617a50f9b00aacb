//! Every click counts once: duplicates, gaps, restarts at any point, several projectors.

use std::collections::BTreeMap;

use linkledger_core::{
    click::Counting,
    clock::{Clock as _, SystemClock},
};
use linkledger_projector::{Config, config::GroupProtocol};
use linkledger_testing::eventually;
use sqlx::{PgPool, raw_sql};

use super::click_stage::{ClickStage, TestRecorder, click, clicks, clicks_by_account, missing};

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
async fn both_group_protocols_count_all_clicks() {
    for group_protocol in [GroupProtocol::Consumer, GroupProtocol::Classic] {
        let stage = ClickStage::set().await;
        let mut recorder = TestRecorder::new();
        let now = SystemClock.now();
        let made: Vec<_> = (0..40).map(|link| click(link, now)).collect();
        stage.publish(&mut recorder, &made).await;
        let config = Config {
            group_protocol,
            ..stage.config()
        };
        stage
            .counting_of(Counting::Totals, &config)
            .count_to_end()
            .await;
        let expected = BTreeMap::from([(0, (14, 0)), (1, (13, 0)), (2, (13, 0))]);
        assert_eq!(clicks_by_account(stage.pool()).await, expected);
    }
}

#[tokio::test]
async fn repeated_records_count_once_and_gaps_are_missing() {
    let stage = ClickStage::set().await;
    let recorder = TestRecorder::new();
    let now = SystemClock.now();
    for sequence in [1, 2, 2, 1, 5, 4, 5, 6] {
        stage
            .publish_as(recorder.id, sequence, &click(1, now))
            .await;
    }
    stage.count_all().await;
    assert_eq!(clicks(stage.pool()).await, 4);
    for counting in Counting::ALL {
        assert_eq!(missing(stage.pool(), counting).await, 2);
    }
    // The records of another recorder have sequences of their own.
    stage
        .publish(&mut TestRecorder::new(), &[click(1, now)])
        .await;
    stage.count_all().await;
    assert_eq!(clicks(stage.pool()).await, 5);
}

#[tokio::test]
async fn countings_killed_at_any_point_count_once() {
    let stage = ClickStage::set().await;
    forget_sequences(stage.pool()).await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    for round in 0..8 {
        let made: Vec<_> = (0..60).map(|link| click(link, now)).collect();
        stage.publish(&mut recorder, &made).await;
        let counting = stage.counting(Counting::Totals);
        let some_are_counted = async || (clicks(stage.pool()).await > 60 * round).then_some(());
        eventually("some clicks are counted", some_are_counted).await;
        counting.abort().await;
    }
    stage.count(Counting::Totals).await;
    assert_eq!(clicks(stage.pool()).await, 8 * 60);
}

#[tokio::test]
async fn two_projectors_count_once() {
    let stage = ClickStage::set().await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    let first = stage.counting(Counting::Totals);
    let mut published = 0;
    let mut publish = async |links: std::ops::Range<u128>| {
        let made: Vec<_> = links.map(|link| click(link, now)).collect();
        stage.publish(&mut recorder, &made).await;
        published += i64::try_from(made.len()).unwrap();
        published
    };
    publish(0..100).await;
    let second = stage.counting(Counting::Totals);
    let expected = publish(0..200).await;
    let all_are_counted = async || (clicks(stage.pool()).await == expected).then_some(());
    eventually("all clicks are counted", all_are_counted).await;
    first.stop().await;
    let expected = publish(0..50).await;
    second.count_to_end().await;
    stage.count(Counting::Totals).await;
    assert_eq!(clicks(stage.pool()).await, expected);
}

#[tokio::test]
async fn group_of_its_own_contends_without_counting_twice() {
    let stage = ClickStage::set().await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    // Two groups read every record twice: only the position decides.
    forget_sequences(stage.pool()).await;
    let other = Config {
        group_id: stage.stage.broker.group_id("contender"),
        ..stage.config()
    };
    let mut expected = 0;
    for _ in 0..3 {
        let countings = [
            stage.counting(Counting::Totals),
            stage.counting_of(Counting::Totals, &other),
        ];
        let made: Vec<_> = (0..100).map(|link| click(link, now)).collect();
        stage.publish(&mut recorder, &made).await;
        expected += 100;
        for counting in countings {
            counting.count_to_end().await;
        }
        assert_eq!(clicks(stage.pool()).await, expected);
    }
}
