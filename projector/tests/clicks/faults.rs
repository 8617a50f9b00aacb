//! Records that cannot be counted, clicks of old days, and a database that refuses or lacks something.

use linkledger_clicks::{Click, Dimension, RecordPlace};
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    cloud_event::RecordKey,
};
use linkledger_event_store::transaction::PoolTransaction;
use linkledger_testing::eventually;
use time::Duration;

use super::{
    click_fixture::{ClickFixture, TestRecorder, click, clicks, missing, partition_of},
    statistics::clicks_of_values,
};

#[tokio::test]
async fn unreadable_records_are_skipped() {
    let fixture = ClickFixture::new().await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    let good = click(1, now);
    let partition = partition_of(good.link_id);
    fixture
        .publish(&mut recorder, std::slice::from_ref(&good))
        .await;
    fixture.publish_record(partition, &[], b"no headers").await;
    let sequence = &mut recorder.sequences[usize::from(partition)];
    *sequence += 1;
    let place = RecordPlace {
        recorder_id: recorder.id,
        partition,
        sequence: *sequence,
    };
    let value = b"{\"slug\":";
    let headers = fixture.headers(place, value).await;
    fixture.publish_record(partition, &headers, value).await;
    let too_old = click(1, now - Duration::days(900));
    let ahead = click(1, now + Duration::days(2));
    fixture
        .publish(&mut recorder, &[too_old, ahead, good])
        .await;
    fixture
        .publish_record(partition, &[("ce_id", "\0".to_owned())], b"")
        .await;
    for _ in 0..2 {
        fixture.count().await;
        assert_eq!(clicks(fixture.pool()).await, 2);
        assert_eq!(missing(fixture.pool()).await, 0);
    }
}

#[tokio::test]
async fn forged_and_altered_records_count_nothing() {
    let fixture = ClickFixture::new().await;
    let mut recorder = TestRecorder::new();
    let honest = click(1, SystemClock.now());
    let partition = partition_of(honest.link_id);
    let place = |sequence| RecordPlace {
        recorder_id: recorder.id,
        partition,
        sequence,
    };
    let altered = Click {
        count: u32::MAX,
        ..honest.clone()
    };
    let altered = altered.to_value();
    let far = fixture.headers(place(1_000_000_000_000), &altered).await;
    let own = fixture.headers(place(1), &honest.to_value()).await;
    let guessed = RecordKey::new(b"guessed");
    let of_other_key = place(2).headers(&altered, &guessed);
    let of_other_key = of_other_key.map(|(name, value)| (name, value.into_owned()));
    let is_mac = |name: &str| name == "ce_mac";
    let with_mac_of_own = far.iter().zip(&own).map(|(far, own)| {
        let taken = if is_mac(far.0) { own } else { far };
        taken.clone()
    });
    let without_mac = far.iter().filter(|(name, _)| !is_mac(name)).cloned();
    let forged: [Vec<_>; 4] = [
        // Before the honest record: no sequence speaks against it.
        own.clone(),
        of_other_key.into(),
        with_mac_of_own.collect(),
        without_mac.collect(),
    ];
    for headers in forged {
        fixture.publish_record(partition, &headers, &altered).await;
    }
    fixture
        .publish(&mut recorder, &[honest.clone(), honest])
        .await;
    fixture.count().await;
    assert_eq!(clicks(fixture.pool()).await, 2);
    assert_eq!(missing(fixture.pool()).await, 0);
}

#[tokio::test]
async fn refused_click_is_skipped_and_the_others_count() {
    let fixture = ClickFixture::new().await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    let made: Vec<_> = (0..50).map(|index| click(index * 16, now)).collect();
    let refused = format!(
        "ALTER TABLE clicks.link_values ADD CHECK (link_id NOT IN ('{}', '{}'))",
        made[17].link_id.uuid(),
        made[41].link_id.uuid()
    );
    let refused = sqlx::query(sqlx::AssertSqlSafe(refused));
    refused.execute(fixture.pool()).await.unwrap();
    fixture.publish(&mut recorder, &made).await;
    fixture.count().await;
    let counted = clicks_of_values(fixture.pool(), "account value", Dimension::Device).await;
    assert_eq!((counted, clicks(fixture.pool()).await), (48, 48));
    assert_eq!(missing(fixture.pool()).await, 0);
}

#[tokio::test]
async fn late_clicks_of_old_days_count() {
    let fixture = ClickFixture::new().await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    let days = [0, 20, 89, 120, 500, 799];
    let made = days.map(|days| click(1, now - Duration::days(days)));
    fixture.publish(&mut recorder, &made).await;
    fixture.count().await;
    let rows = async |table: &str| -> i64 {
        let statement = format!("SELECT count(*) FROM clicks.{table}");
        let count = sqlx::query_scalar(sqlx::AssertSqlSafe(statement));
        count.fetch_one(fixture.pool()).await.unwrap()
    };
    assert_eq!(rows("link_days").await, 6);
    // Slots are kept 90 days, values 13 months.
    assert_eq!(rows("link_15min").await, 3);
    assert_eq!(rows("account_values").await, 4);
}

#[tokio::test]
async fn dropped_partition_is_created_again() {
    let fixture = ClickFixture::new().await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    let aggregation = fixture.aggregation();
    fixture.publish(&mut recorder, &[click(1, now)]).await;
    let counted = async |count| (clicks(fixture.pool()).await == count).then_some(());
    eventually("the first click is counted", || counted(1)).await;
    let partition: String = sqlx::query_scalar(
        "SELECT inhrelid::regclass::text FROM pg_inherits
         WHERE inhparent = 'clicks.link_15min'::regclass",
    )
    .fetch_one(fixture.pool())
    .await
    .unwrap();
    sqlx::query(sqlx::AssertSqlSafe(format!("DROP TABLE {partition}")))
        .execute(fixture.pool())
        .await
        .unwrap();
    fixture.publish(&mut recorder, &[click(1, now)]).await;
    aggregation.count_to_end().await;
    counted(2).await.unwrap();
}

#[tokio::test]
async fn locked_partition_does_not_delay_the_others() {
    let fixture = ClickFixture::new().await;
    let mut recorder = TestRecorder::new();
    let now = SystemClock.now();
    let mut tx = PoolTransaction::begin(fixture.pool()).await.unwrap();
    sqlx::query("SELECT FROM clicks.positions WHERE partition = 3 FOR UPDATE")
        .execute(&mut *tx)
        .await
        .unwrap();
    let aggregation = fixture.aggregation();
    let made: Vec<_> = (0..32).map(|link| click(link, now)).collect();
    fixture.publish(&mut recorder, &made).await;
    let counted = async |count| (clicks(fixture.pool()).await == count).then_some(());
    eventually("the other partitions are counted", || counted(30)).await;
    tx.rollback().await.unwrap();
    aggregation.count_to_end().await;
    counted(32).await.unwrap();
}
