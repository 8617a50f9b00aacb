//! Publishing: cursors and records.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use linkledger_command_api::{
    committed_events::CommittedEvents,
    relay::{Relay, cursor, publisher::KafkaPublisher},
};
use linkledger_core::{cloud_event::TOPIC, shard::Shard};
use linkledger_service::kafka_config::KafkaConfig;
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use rdkafka::mocking::MockCluster;

use crate::{
    fixture::{Recorder, consume, event_after, relay, step_until_stored, stored, with_links},
    support::{TestApp, create, destination, fresh_key, send},
};

#[tokio::test]
async fn partial_broker_failure_resends_only_unacknowledged() {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 3).await);
    let recorder = Recorder::default();
    recorder.take_only(4);
    let mut relay = relay(&database, recorder.clone(), "one");
    let error = relay.step().await.unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "the broker did not acknowledge every record: on purpose"
    );
    step_until_stored(&mut relay, &database, (shard, 6)).await;
    assert_eq!(recorder.taken(), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn unreadable_metadata_stops_no_shard() {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 3).await);
    let damage = "ALTER TABLE event_store.events DISABLE TRIGGER USER;
                  UPDATE event_store.events SET metadata = '{\"actor\": 5}' WHERE position = 2;
                  UPDATE event_store.events SET metadata = '[7]' WHERE position = 4;
                  ALTER TABLE event_store.events ENABLE TRIGGER USER";
    sqlx::raw_sql(damage)
        .execute(database.pool())
        .await
        .unwrap();
    let recorder = Recorder::default();
    let mut relay = relay(&database, recorder.clone(), "a");
    step_until_stored(&mut relay, &database, (shard, 6)).await;
    assert_eq!(recorder.taken(), [1, 2, 3, 4, 5, 6]);
}

/// The writers of this process have a new event at each step, so the relay never lacks work.
#[tokio::test]
async fn events_of_other_processes_are_published_beside_own() {
    let database = TestDatabase::create().await;
    let own = with_links(&database, 1).await;
    let committed = Arc::<CommittedEvents>::default();
    let (recorder, pool) = (Recorder::default(), database.pool().clone());
    let mut relay = Relay::new(pool, recorder.clone(), "one".to_owned(), committed.clone());
    step_until_stored(&mut relay, &database, (Shard::of(own), 2)).await;

    let mut others = testing::account(database.pool(), 1_000).await;
    while Shard::of(others) == Shard::of(own) {
        others = testing::account(database.pool(), 1_000).await;
    }
    testing::append_links(
        database.pool(),
        others,
        &[("of-others", "https://example.com")],
    )
    .await;
    let until = Instant::now() + Duration::from_mins(2);
    for number in 0.. {
        let slug = format!("own-{number}");
        testing::append_links(
            database.pool(),
            own,
            &[(slug.as_str(), "https://example.com")],
        )
        .await;
        for after in [2 + 2 * number, 3 + 2 * number] {
            let event = event_after(&database, Shard::of(own), after).await;
            committed.add(vec![event], Instant::now());
        }
        relay.step().await.unwrap();
        if stored(&database, Shard::of(others)).await == 2 {
            break;
        }
        assert!(Instant::now() < until, "events of others are not published");
    }
    let taken = recorder.taken().into_iter();
    let of_own: Vec<i64> = taken.filter(|position| *position > 2).collect();
    assert!(
        of_own.iter().copied().eq((3..).take(of_own.len())),
        "{of_own:?}"
    );
}

#[tokio::test]
async fn crash_before_cursor_store_repeats_events() {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 2).await);
    let recorder = Recorder::default();
    let mut crashing = relay(&database, recorder.clone(), "one");
    assert_eq!(crashing.step().await.unwrap(), 4);
    drop(crashing);
    // The state after a quick step: a slow step has stored the cursor already.
    cursor::rewind_to_new_broker(database.pool(), &[(shard, 0)])
        .await
        .unwrap();
    // A restarted process has the same name and takes its own lease over at once.
    let mut restarted = relay(&database, recorder.clone(), "one");
    step_until_stored(&mut restarted, &database, (shard, 4)).await;
    assert_eq!(recorder.taken(), [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[tokio::test]
async fn cursor_beyond_the_log_is_refused() {
    let database = TestDatabase::create().await;
    sqlx::query("UPDATE event_store.relay_cursors SET position = 7 WHERE shard = 3")
        .execute(database.pool())
        .await
        .unwrap();
    let error = relay(&database, Recorder::default(), "one")
        .step()
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the log of shard 3 has lost events of epoch 1"),
        "{error}"
    );
}

#[tokio::test]
async fn rewind_publishes_later_events_again() {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 2).await);
    let recorder = Recorder::default();
    step_until_stored(
        &mut relay(&database, recorder.clone(), "one"),
        &database,
        (shard, 4),
    )
    .await;
    cursor::rewind_to_new_broker(database.pool(), &[(shard, 2)])
        .await
        .unwrap();
    // A rewind never moves a cursor forward.
    cursor::rewind_to_new_broker(database.pool(), &[(shard, 9)])
        .await
        .unwrap();
    relay(&database, recorder.clone(), "one")
        .step()
        .await
        .unwrap();
    assert_eq!(recorder.taken(), [1, 2, 3, 4, 3, 4]);
}

#[tokio::test]
async fn topic_with_wrong_partition_count_is_refused() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, 4, 1).unwrap();
    let database = TestDatabase::create().await;
    with_links(&database, 1).await;
    let kafka = KafkaConfig::plaintext(cluster.bootstrap_servers());
    let publisher = KafkaPublisher::new(&kafka, "lz4").unwrap();
    let error = relay(&database, publisher, "one").step().await.unwrap_err();
    let expected = format!("the topic {TOPIC} has 4 partitions instead of 16");
    assert!(format!("{error:#}").contains(&expected), "{error:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn created_link_makes_two_records_in_partition() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(10).await;
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut request = create(&key, fresh_key(), &destination());
    request
        .headers_mut()
        .insert("traceparent", traceparent.parse().unwrap());
    let created = send(&app.router, request).await.json();

    let records = consume(&app.broker, 2);
    let stored: Vec<(String,)> =
        sqlx::query_as("SELECT payload::text FROM event_store.events ORDER BY position")
            .fetch_all(app.database.pool())
            .await
            .unwrap();
    for (n, (partition, headers, payload)) in records.iter().enumerate() {
        assert_eq!(*partition, i32::from(Shard::of(account_id).number()));
        assert_eq!(headers["key"], account_id.to_string());
        assert_eq!(headers["ce_partitionkey"], account_id.to_string());
        assert_eq!(headers["ce_sequence"], format!("{:020}", n + 1));
        assert_eq!(headers["ce_logepoch"], "1");
        assert_eq!(headers["ce_traceparent"], traceparent);
        assert_eq!(headers["ce_time"], created["created_at"]);
        assert_eq!(*payload, stored[n].0);
    }
    let types: Vec<&str> = records
        .iter()
        .map(|(_, headers, _)| &*headers["ce_type"])
        .collect();
    assert_eq!(
        types,
        ["linkledger.LinkCreated.v1", "linkledger.CreditsCharged.v1"]
    );
    assert_eq!(records[0].1["ce_subject"], created["id"]);
    assert_eq!(records[1].1["ce_subject"], account_id.to_string());
}
