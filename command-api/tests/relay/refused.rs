//! Records that the broker refuses for themselves: their shard stops, the others advance.

use linkledger_command_api::relay::publisher::KafkaPublisher;
use linkledger_core::shard::Shard;
use linkledger_testing as testing;
use linkledger_testing::{TestBroker, TestDatabase, stream::Stream};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr::*};
use sqlx::PgPool;

use crate::{
    cli,
    fixture::{DRAIN_TIME_MAX, Recorder, drained, relay, step_until_stored, stored},
    pause::{status, step_until},
    running::{RunningRelay, an_account_of_each_shard, granted},
};

/// Size of a payload that the producer refuses.
const TOO_LARGE: usize = 2_000_000;

/// Sets the payload of the first event of the shard.
async fn damage(database: &TestDatabase, shard: Shard, payload: &str) {
    let sql = format!(
        "ALTER TABLE event_store.events DISABLE TRIGGER USER;
         UPDATE event_store.events SET payload = '{payload}'
         WHERE shard = {shard} AND position = 1;
         ALTER TABLE event_store.events ENABLE TRIGGER USER"
    );
    run(database, sql).await;
}

async fn run(database: &TestDatabase, sql: String) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .execute(database.pool())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_record_stops_only_its_shard() {
    let database = TestDatabase::create().await;
    let broker = TestBroker::embedded();
    let accounts = an_account_of_each_shard(&database).await;
    let append = async |balances: std::ops::RangeInclusive<i64>| {
        for account_id in accounts {
            let events: Vec<_> = balances.clone().map(|it| granted(account_id, it)).collect();
            testing::append_events(database.pool(), account_id, &events).await;
        }
    };
    append(1..=3).await;
    let [refused, others @ ..] = &Shard::all().collect::<Vec<_>>()[..] else {
        panic!("there is a shard");
    };
    let payload = "SELECT payload::text FROM event_store.events WHERE shard = $1 AND position = 1";
    let payload: String = sqlx::query_scalar(payload)
        .bind(refused.number())
        .fetch_one(database.pool())
        .await
        .unwrap();
    let too_large = format!("{{\"padding\": \"{}\"}}", "x".repeat(TOO_LARGE));
    damage(&database, *refused, &too_large).await;

    let relay = RunningRelay::start(database.pool(), &broker.config());
    let others_reach = async |position| {
        testing::eventually("the other shards are published", async || {
            for shard in others {
                if stored(&database, *shard).await < position {
                    return None;
                }
            }
            Some(())
        })
        .await;
    };
    others_reach(3).await;
    // Later events of the other shards are published as well, also while the shard is retried.
    append(4..=40).await;
    others_reach(40).await;
    assert_eq!(stored(&database, *refused).await, 0);
    testing::eventually("the reason is stored", async || {
        (!status(&database)["shards"][0]["refusal"].is_null()).then_some(())
    })
    .await;
    assert_refused(
        &database,
        Some("position 1 of shard 0, was refused: the topic must take larger messages"),
    );

    damage(&database, *refused, &payload).await;
    drained(database.pool(), DRAIN_TIME_MAX).await;
    let repeated = Stream::assert_is_the_log(&broker.config(), database.pool()).await;
    assert_eq!(repeated, 0);
    relay.stop().await;
    assert_refused(&database, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn shard_advances_after_broker_accepts_its_record() {
    let database = TestDatabase::create().await;
    let broker = TestBroker::embedded();
    for account_id in an_account_of_each_shard(&database).await {
        testing::append_events(database.pool(), account_id, &[granted(account_id, 1)]).await;
    }
    let publisher = KafkaPublisher::new(&broker.config(), "lz4").unwrap();
    let mut relay = relay(&database, publisher, "one");
    // One of the first requests is refused; the producer is unusable after that.
    let errors = [RD_KAFKA_RESP_ERR_INVALID_RECORD];
    broker
        .cluster()
        .request_errors(RDKafkaApiKey::Produce, &errors);
    for shard in Shard::all() {
        step_until_stored(&mut relay, &database, (shard, 1)).await;
    }
    Stream::assert_is_the_log(&broker.config(), database.pool()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shard_stopped_by_event_time_names_remedy() {
    let database = TestDatabase::create().await;
    let broker = TestBroker::embedded();
    let account_id = testing::account_of(database.pool(), Shard::new(0).unwrap(), 0).await;
    testing::append_events(database.pool(), account_id, &[granted(account_id, 1)]).await;
    let errors = [RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP; 1000];
    broker
        .cluster()
        .request_errors(RDKafkaApiKey::Produce, &errors);
    let relay = RunningRelay::start(database.pool(), &broker.config());
    testing::eventually("the reason is stored", async || {
        (!status(&database)["shards"][0]["refusal"].is_null()).then_some(())
    })
    .await;
    let remedy = "the topic must take events of any time (message.timestamp.before.max.ms, \
                  message.timestamp.after.max.ms without a limit; `command-api topic check`";
    assert_refused(&database, Some(remedy));
    broker
        .cluster()
        .clear_request_errors(RDKafkaApiKey::Produce);
    drained(database.pool(), DRAIN_TIME_MAX).await;
    relay.stop().await;
    assert_refused(&database, None);
}

/// Asserts the refusals that `relay status` shows; the first shard alone may have one.
fn assert_refused(database: &TestDatabase, refusal: Option<&str>) {
    let shards = &status(database)["shards"];
    let shown = shards[0]["refusal"].as_str();
    let since = shards[0]["refused_since"].as_str();
    assert_eq!(shown.is_some(), since.is_some());
    match refusal {
        Some(refusal) => assert!(shown.unwrap().contains(refusal), "{shown:?}"),
        None => assert_eq!(shown, None),
    }
    for shard in 1..16 {
        assert!(shards[shard]["refusal"].is_null(), "{shards}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_event_stops_only_its_shard() {
    let database = TestDatabase::create().await;
    for account_id in an_account_of_each_shard(&database).await {
        testing::append_events(database.pool(), account_id, &[granted(account_id, 1)]).await;
    }
    let first = Shard::new(0).unwrap();
    testing::damage_event(database.pool(), first, 1).await;
    let recorder = Recorder::default();
    let mut relay = relay(&database, recorder.clone(), "one");
    for shard in Shard::all().skip(1) {
        step_until_stored(&mut relay, &database, (shard, 1)).await;
    }
    assert_eq!(recorder.taken(), [1; 15]);
    let reason = "the event after position 0 of shard 0 cannot be read: the log is damaged, run \
                  `command-api log verify`";
    assert_refused(
        &database,
        Some(&format!("the shard is stopped: {reason}: ")),
    );
    let shown = cli::run(database.url(), &["relay", "status"]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("Shard 0 is stopped since "), "{shown}");
    assert!(shown.contains(&format!(": {reason}: ")), "{shown}");

    testing::mend_log(database.pool()).await;
    step_until_stored(&mut relay, &database, (first, 1)).await;
    assert_eq!(recorder.taken(), [1; 16]);
    assert_refused(&database, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_before_unreadable_event_are_published() {
    publishes_events_before_damage(40, testing::damage_event).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_before_missing_event_are_published() {
    publishes_events_before_damage(40, testing::hide_event).await;
    publishes_events_before_damage(30, testing::hide_event).await;
}

/// Damages a log of `head` events at one position: the relay publishes the events before, and all others once
/// the log is mended.
async fn publishes_events_before_damage(
    head: i64,
    break_log: impl AsyncFnOnce(&PgPool, Shard, i64),
) {
    const DAMAGED: i64 = 30;
    let database = TestDatabase::create().await;
    let shard = Shard::new(0).unwrap();
    let account_id = testing::account_of(database.pool(), shard, 0).await;
    let events: Vec<_> = (1..=head).map(|it| granted(account_id, it)).collect();
    testing::append_events(database.pool(), account_id, &events).await;
    break_log(database.pool(), shard, DAMAGED).await;
    let recorder = Recorder::default();
    let mut relay = relay(&database, recorder.clone(), "one");
    step_until_stored(&mut relay, &database, (shard, DAMAGED - 1)).await;
    let is_stopped = async || !status(&database)["shards"][0]["refusal"].is_null();
    step_until(&mut relay, "the shard is stopped", is_stopped).await;
    assert_refused(&database, Some("the event after position 29 of shard 0"));
    let before: Vec<i64> = (1..DAMAGED).collect();
    assert_eq!(recorder.taken(), before);

    testing::mend_log(database.pool()).await;
    step_until_stored(&mut relay, &database, (shard, head)).await;
    assert_eq!(recorder.taken(), (1..=head).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_published_event_stops_only_its_shard() {
    let database = TestDatabase::create().await;
    let accounts = an_account_of_each_shard(&database).await;
    let append = async || {
        for account_id in &accounts {
            testing::append_events(database.pool(), *account_id, &[granted(*account_id, 1)]).await;
        }
    };
    append().await;
    let recorder = Recorder::default();
    let mut relay = relay(&database, recorder.clone(), "one");
    for shard in Shard::all() {
        step_until_stored(&mut relay, &database, (shard, 1)).await;
    }
    append().await;
    // The published event of the shard: later events could follow a lost one.
    let first = Shard::new(0).unwrap();
    testing::damage_event(database.pool(), first, 1).await;
    for shard in Shard::all().skip(1) {
        step_until_stored(&mut relay, &database, (shard, 2)).await;
    }
    assert_eq!(stored(&database, first).await, 1);
    assert_refused(&database, Some("the event at position 1 of shard 0"));

    testing::mend_log(database.pool()).await;
    step_until_stored(&mut relay, &database, (first, 2)).await;
    assert_refused(&database, None);
}
