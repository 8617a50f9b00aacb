//! Outages of the broker: what waits, what merges, and what is sent again.

use std::time::Duration;

use linkledger_clicks::ClickKind;
use linkledger_testing::{self as testing, TestDatabase};
use rdkafka::{
    mocking::MockCluster,
    producer::DefaultProducerContext,
    types::{
        RDKafkaApiKey,
        RDKafkaRespErr::{
            self, RD_KAFKA_RESP_ERR_INVALID_RECORD, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
        },
    },
};

use super::fixture::{ClickFixture, FIREFOX, assert_complete, count, without_repeats};

const AGENT: [(&str, &str); 1] = [("user-agent", FIREFOX)];

fn refuse(cluster: &MockCluster<'_, DefaultProducerContext>, errors: &[RDKafkaRespErr]) {
    cluster.request_errors(RDKafkaApiKey::Produce, errors);
}

#[tokio::test(flavor = "multi_thread")]
async fn returned_broker_gets_every_click() {
    let fixture = ClickFixture::start().await;
    for number in 0..10 {
        fixture.link(&format!("link-{number}")).await;
        fixture.visit(&format!("link-{number}"), &AGENT).await;
    }
    fixture.received(10).await;
    fixture.broker.cluster().broker_down(1).unwrap();
    for _ in 0..50 {
        for number in 0..10 {
            fixture.visit(&format!("link-{number}"), &AGENT).await;
        }
    }
    fixture.broker.cluster().broker_up(1).unwrap();
    fixture.received(510).await;
    let (_database, received) = fixture.stop().await;
    let received = without_repeats(received);
    assert_complete(&received);
    assert_eq!((received.len(), count(&received)), (510, 510));
}

#[tokio::test(flavor = "multi_thread")]
async fn full_outbox_merges_with_exact_total() {
    let fixture = ClickFixture::start_with(TestDatabase::create().await, |settings| {
        settings.click_buffer_mib = 1;
    })
    .await;
    fixture.link("spring").await;
    fixture.link("summer").await;
    fixture.broker.cluster().broker_down(1).unwrap();
    for _ in 0..3_000 {
        fixture.visit("spring", &AGENT).await;
    }
    for _ in 0..100 {
        fixture
            .visit("spring", &[("user-agent", "curl/8.5.0")])
            .await;
        fixture.visit("summer", &AGENT).await;
    }
    fixture.broker.cluster().broker_up(1).unwrap();
    fixture.received(3_200).await;
    let (_database, received) = fixture.stop().await;
    let received = without_repeats(received);
    assert_complete(&received);
    assert_eq!(count(&received), 3_200);
    let merged = received.iter().filter(|it| it.click.count > 1);
    assert!(merged.count() > 0);
    let bots = received.into_iter();
    let bots: Vec<_> = bots.filter(|it| it.click.kind == ClickKind::Bot).collect();
    assert_eq!(count(&bots), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn fatal_error_resends_in_order() {
    let fixture = ClickFixture::start().await;
    for number in 0..10 {
        fixture.link(&format!("link-{number}")).await;
    }
    // Not about a record: nothing is lost.
    let errors = [RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; 2];
    for _ in 0..5 {
        refuse(fixture.broker.cluster(), &errors);
        for _ in 0..20 {
            for number in 0..10 {
                fixture.visit(&format!("link-{number}"), &AGENT).await;
            }
        }
    }
    fixture.received(1_000).await;
    let (_database, received) = fixture.stop().await;
    let received = without_repeats(received);
    assert_complete(&received);
    assert_eq!(count(&received), 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_record_leaves_a_gap() {
    let fixture = ClickFixture::start().await;
    fixture.link("spring").await;
    refuse(
        fixture.broker.cluster(),
        &[RD_KAFKA_RESP_ERR_INVALID_RECORD],
    );
    for _ in 0..10 {
        fixture.visit("spring", &AGENT).await;
    }
    fixture.received(9).await;
    let (_database, received) = fixture.stop().await;
    let received = without_repeats(received);
    let sequences: Vec<_> = received.iter().map(|it| it.place.sequence).collect();
    assert_eq!(sequences, (2..=10).collect::<Vec<u64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_flushes_clicks_of_the_last_moment() {
    let fixture = ClickFixture::start().await;
    fixture.link("spring").await;
    for _ in 0..500 {
        fixture.visit("spring", &AGENT).await;
    }
    let (_database, received) = fixture.stop().await;
    assert_complete(&received);
    assert_eq!(count(&received), 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_without_broker_is_no_orderly_end() {
    let fixture = ClickFixture::start().await;
    fixture.link("spring").await;
    fixture.broker.cluster().broker_down(1).unwrap();
    fixture.visit("spring", &AGENT).await;
    let database = fixture.service.shut_down().await.unwrap();
    let ended: Vec<bool> = sqlx::query_scalar("SELECT ended_at IS NOT NULL FROM clicks.recorders")
        .fetch_all(database.pool())
        .await
        .unwrap();
    assert_eq!(ended, [false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn clicks_are_recorded_while_heartbeats_fail() {
    let fixture = ClickFixture::start().await;
    fixture.link("spring").await;
    let rename = async |from: &str, to: &str| {
        let sql = format!("ALTER TABLE clicks.{from} RENAME TO {to}");
        let renamed = sqlx::query(sqlx::AssertSqlSafe(sql)).execute(fixture.service.pool());
        renamed.await.unwrap();
    };
    rename("heartbeats", "out_of_reach").await;
    for _ in 0..10 {
        fixture.visit("spring", &AGENT).await;
    }
    fixture.received(10).await;
    rename("out_of_reach", "heartbeats").await;
    fixture.service.clock.advance(Duration::from_secs(1));
    testing::eventually("a heartbeat has all clicks", async || {
        let sequences: i64 = sqlx::query_scalar(
            "SELECT coalesce(sum(sequence), 0)::bigint
             FROM clicks.heartbeats, unnest(sequences) AS sequence
             WHERE recorded_until = (SELECT max(recorded_until) FROM clicks.heartbeats)",
        )
        .fetch_one(fixture.service.pool())
        .await
        .unwrap();
        (sequences == 10).then_some(())
    })
    .await;
}
