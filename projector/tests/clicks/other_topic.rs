//! Another topic with the same name: counted from its beginning, and nothing counts twice.

use linkledger_core::clock::{Clock as _, SystemClock};

use super::click_fixture::{ClickFixture, TestRecorder, click, clicks, missing};

/// Publishes clicks of one link, and counts them.
async fn counted(fixture: &ClickFixture, recorder: &mut TestRecorder, count: usize) {
    let made = vec![click(1, SystemClock.now()); count];
    fixture.publish(recorder, &made).await;
    fixture.count().await;
}

#[tokio::test]
async fn other_topic_is_counted_from_its_beginning() {
    // Shorter than the position, as long, and longer.
    for length in [2, 5, 9] {
        let fixture = ClickFixture::new().await;
        counted(&fixture, &mut TestRecorder::new(), 5).await;
        let fixture = fixture.with_other_broker().await;
        let mut recorder = TestRecorder::new();
        counted(&fixture, &mut recorder, length).await;
        if length == 5 {
            // The next record shows that the topic is another one.
            counted(&fixture, &mut recorder, 1).await;
        }
        let total = if length == 5 { 11 } else { 5 + length };
        assert_eq!(clicks(fixture.pool()).await, i64::try_from(total).unwrap());
        assert_eq!(missing(fixture.pool()).await, 0);
    }
}

#[tokio::test]
async fn records_of_both_topics_count_once() {
    let fixture = ClickFixture::new().await;
    let recorder = TestRecorder::new();
    let now = SystemClock.now();
    for sequence in 1..=6 {
        fixture
            .publish_as(recorder.id, sequence, &click(1, now))
            .await;
    }
    fixture.count().await;
    // A topic that was restored lacks the first records and has the others at other offsets.
    let fixture = fixture.with_other_broker().await;
    for sequence in 3..=9 {
        fixture
            .publish_as(recorder.id, sequence, &click(1, now))
            .await;
    }
    fixture.count().await;
    assert_eq!(clicks(fixture.pool()).await, 9);
    assert_eq!(missing(fixture.pool()).await, 0);
}

#[tokio::test]
async fn empty_other_topic_is_read_to_its_end() {
    let fixture = ClickFixture::new().await;
    counted(&fixture, &mut TestRecorder::new(), 5).await;
    let fixture = fixture.with_other_broker().await;
    fixture.count().await;
    assert_eq!(clicks(fixture.pool()).await, 5);
    counted(&fixture, &mut TestRecorder::new(), 3).await;
    assert_eq!(clicks(fixture.pool()).await, 8);
}
