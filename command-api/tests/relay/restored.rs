//! Logs that have lost published events: by a restore, or a failover to a lagging standby.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use linkledger_command_api::{committed_events::CommittedEvents, relay::Relay};
use linkledger_core::{
    envelope::RecordedEvent,
    id::{AccountId, EventId},
    shard::Shard,
};
use linkledger_service::lifecycle::Tasks;
use linkledger_testing as testing;
use linkledger_testing::{TestBroker, TestDatabase, stream::Stream};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    cli,
    fixture::{Recorder, event_after, relay, step_until_stored, stored, with_links},
    republish::{publisher, republish, republished},
};

/// Number of events of three links.
const EVENTS: i64 = 6;

async fn run(database: &TestDatabase, sql: &str) {
    let sql = sqlx::AssertSqlSafe(sql.to_owned());
    sqlx::raw_sql(sql).execute(database.pool()).await.unwrap();
}

/// Steps until the relay fails, and returns the error.
async fn failure(relay: &mut Relay) -> String {
    let until = Instant::now() + Duration::from_mins(2);
    loop {
        assert!(Instant::now() < until, "it does not fail");
        if let Err(error) = relay.step().await {
            return format!("{error:#}");
        }
    }
}

/// Publishes up to a position by a relay that is shut down afterwards.
async fn publish(database: &TestDatabase, broker: &TestBroker, (shard, position): (Shard, i64)) {
    let shutdown = CancellationToken::new();
    let mut tasks = Tasks::new(shutdown.clone());
    let relay = relay(database, publisher(broker), "one");
    tasks.spawn_essential("relay", relay.run(shutdown.clone()));
    testing::eventually("all is published", || async {
        (stored(database, shard).await == position).then_some(())
    })
    .await;
    shutdown.cancel();
    tasks.join().await.unwrap();
}

/// A failover loses an event that the relay has from a writer, and the log goes on with others, which it has from there
/// too.
#[tokio::test]
async fn loss_of_an_event_that_was_never_read_is_noticed() {
    let database = TestDatabase::create().await;
    let account_id = with_links(&database, 3).await;
    let shard = Shard::of(account_id);
    let (recorder, committed) = (Recorder::default(), Arc::<CommittedEvents>::default());
    let pool = database.pool().clone();
    let mut running = Relay::new(pool, recorder.clone(), "one".to_owned(), committed.clone());
    step_until_stored(&mut running, &database, (shard, EVENTS)).await;

    let lost = RecordedEvent {
        position: EVENTS + 1,
        event_id: EventId::from_uuid(Uuid::nil()),
        ..event_after(&database, shard, EVENTS - 1).await
    };
    // Not in the log: what is published was not read there. Now and then the relay reads the log in its place.
    let until = Instant::now() + Duration::from_mins(2);
    while recorder.taken().last() != Some(&lost.position) {
        assert!(
            Instant::now() < until,
            "the relay reads nothing but the log"
        );
        committed.add(vec![lost.clone()], Instant::now());
        running.step().await.unwrap();
    }
    let others = [("other", "https://example.com")];
    testing::append_links(database.pool(), account_id, &others).await;
    committed.add(
        vec![event_after(&database, shard, EVENTS + 1).await],
        Instant::now(),
    );
    let lost = format!("the log of shard {shard} has lost events of epoch 1");
    assert!(failure(&mut running).await.starts_with(&lost));
}

#[tokio::test(flavor = "multi_thread")]
async fn log_losing_events_needs_new_epoch() {
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 3).await);
    let recorder = Recorder::default();
    let mut running = relay(&database, recorder.clone(), "one");
    step_until_stored(&mut running, &database, (shard, EVENTS)).await;
    let head = |head: i64| format!("UPDATE event_store.log_shards SET head = {head}");
    run(&database, &head(2)).await;
    let lost = format!("the log of shard {shard} has lost events of epoch 1");
    assert!(failure(&mut running).await.starts_with(&lost));
    // Later commands make the log as long as before, with other events.
    run(&database, &head(EVENTS)).await;
    for _ in 0..3 {
        let again = running.step().await.unwrap_err().to_string();
        assert!(again.starts_with(&lost), "{again}");
    }
    // A process that did not notice the loss refuses too, also after a republish in the same epoch.
    let present = TestBroker::embedded();
    let mut restarted = relay(&database, recorder.clone(), "one");
    assert!(failure(&mut restarted).await.starts_with(&lost));
    run(
        &database,
        "UPDATE event_store.relay_cursors SET lease_expires_at = now()",
    )
    .await;
    republished(&republish(&database, &present, &["--from", "0"]));
    let again = failure(&mut running).await;
    assert!(again.starts_with(&lost), "{again}");

    run(&database, "UPDATE event_store.log_meta SET epoch = 2").await;
    let raised = failure(&mut running).await;
    assert!(raised.starts_with("the log is of epoch 2"), "{raised}");
    run(
        &database,
        "UPDATE event_store.relay_cursors SET lease_expires_at = now()",
    )
    .await;
    republished(&republish(&database, &present, &["--from", "0"]));
    assert_eq!(recorder.taken(), [1, 2, 3, 4, 5, 6]);
    // The process that noticed the loss publishes again.
    step_until_stored(&mut running, &database, (shard, EVENTS)).await;
    assert_eq!(recorder.taken(), [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn regrown_log_is_refused_by_running_relay() {
    let database = TestDatabase::create().await;
    let account_id = with_links(&database, 3).await;
    let shard = Shard::of(account_id);
    let recorder = Recorder::default();
    let mut running = relay(&database, recorder.clone(), "one");
    run(&database, BACK_UP).await;
    append(&database, account_id, ["lost-1", "lost-2"]).await;
    step_until_stored(&mut running, &database, (shard, EVENTS + 4)).await;
    // A lagging standby took over, and commands were accepted before the relay noticed: more than were lost.
    run(&database, RESTORE_LOG).await;
    append(&database, account_id, ["after-1", "after-2"]).await;
    append(&database, account_id, ["after-3", "after-4"]).await;
    let refused = failure(&mut running).await;
    let lost = format!("the log of shard {shard} has lost events of epoch 1");
    assert!(refused.starts_with(&lost), "{refused}");
    assert_eq!(recorder.taken().len(), 10);
}

#[tokio::test]
async fn one_refused_shard_stops_all_publishing() {
    let database = TestDatabase::create().await;
    let account_id = with_links(&database, 1).await;
    let recorder = Recorder::default();
    let mut running = relay(&database, recorder.clone(), "one");
    running.step().await.unwrap();
    let shard = (Shard::of(account_id).number() + 1) % 16;
    run(
        &database,
        &format!(
            "UPDATE event_store.relay_cursors
             SET owner = NULL, lease_epoch = lease_epoch + 1, lease_expires_at = NULL;
             UPDATE event_store.relay_cursors SET position = 7 WHERE shard = {shard}"
        ),
    )
    .await;
    let refused = failure(&mut running).await;
    assert!(
        refused.starts_with(&format!("the log of shard {shard} has lost")),
        "{refused}"
    );
    let links = [("later", "https://example.com")];
    testing::append_links(database.pool(), account_id, &links).await;
    for _ in 0..3 {
        assert_eq!(running.step().await.unwrap_err().to_string(), refused);
    }
    assert_eq!(recorder.taken(), [1, 2]);
}

/// Creates a database with the events of three links whose broker also has the events of two more
/// links, as after a point-in-time recovery.
async fn restored(broker: &TestBroker) -> (TestDatabase, AccountId) {
    let database = TestDatabase::create().await;
    let account_id = with_links(&database, 3).await;
    let shard = Shard::of(account_id);
    publish(&database, broker, (shard, EVENTS)).await;
    run(&database, BACK_UP).await;
    append(&database, account_id, ["lost-1", "lost-2"]).await;
    publish(&database, broker, (shard, EVENTS + 4)).await;
    run(&database, &[RESTORE_LOG, RESTORE_CURSORS].concat()).await;
    (database, account_id)
}

async fn records(broker: &TestBroker) -> usize {
    let stream = Stream::read(&broker.config()).await;
    stream.records.iter().map(Vec::len).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_log_and_cursors_are_refused() {
    // The log is shorter than the topic, grows, and reaches its former length.
    for created in 0..=2 {
        let broker = TestBroker::start().await;
        let (database, account_id) = restored(&broker).await;
        let before = records(&broker).await;
        for nth in 0..created {
            let slug = format!("after-{nth}");
            let links = [(slug.as_str(), "https://example.com")];
            testing::append_links(database.pool(), account_id, &links).await;
        }
        let expected = format!(
            "the log of shard {} has lost events of epoch 1 that were published",
            Shard::of(account_id)
        );
        for owner in ["one", "another"] {
            let mut relay = relay(&database, publisher(&broker), owner);
            let refused = failure(&mut relay).await;
            assert!(refused.starts_with(&expected), "{refused}");
            let end_leases = "UPDATE event_store.relay_cursors SET lease_expires_at = now()";
            run(&database, end_leases).await;
        }
        assert_eq!(records(&broker).await, before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_published_before_a_crash_are_repeated() {
    let broker = TestBroker::start().await;
    let database = TestDatabase::create().await;
    let account_id = with_links(&database, 3).await;
    let shard = Shard::of(account_id);
    publish(&database, &broker, (shard, EVENTS)).await;
    run(&database, BACK_UP).await;
    append(&database, account_id, ["later-1", "later-2"]).await;
    publish(&database, &broker, (shard, EVENTS + 4)).await;
    run(&database, RESTORE_CURSORS).await;
    append(&database, account_id, ["last-1", "last-2"]).await;
    publish(&database, &broker, (shard, EVENTS + 8)).await;
    let repeated = Stream::assert_is_the_log(&broker.config(), database.pool()).await;
    assert_eq!(repeated, 4);

    // The same without a stored offset of the last record.
    run(&database, RESTORE_CURSORS).await;
    let forget = "UPDATE event_store.relay_cursors SET record_offset = NULL";
    run(&database, forget).await;
    publish(&database, &broker, (shard, EVENTS + 8)).await;
    let repeated = Stream::assert_is_the_log(&broker.config(), database.pool()).await;
    assert_eq!(repeated, 4 + 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn log_restored_before_a_raise_is_refused() {
    let broker = TestBroker::start().await;
    let database = TestDatabase::create().await;
    let shard = Shard::of(with_links(&database, 3).await);
    run(&database, BACK_UP).await;
    let epoch = |epoch: i32| format!("UPDATE event_store.log_meta SET epoch = {epoch};");
    let follow = "UPDATE event_store.relay_cursors SET epoch = 3;";
    run(&database, &[&epoch(3), follow].concat()).await;
    publish(&database, &broker, (shard, EVENTS)).await;

    run(
        &database,
        &[RESTORE_LOG, RESTORE_CURSORS, &epoch(1)].concat(),
    )
    .await;
    let mut early = relay(&database, publisher(&broker), "early");
    let refused = failure(&mut early).await;
    let lost = format!("the log of shard {shard} has lost events of epoch 3");
    assert!(refused.starts_with(&lost), "{refused}");
    for (raised, expected) in [(2, &*lost), (3, &lost), (4, "the log is of epoch 4")] {
        run(&database, &epoch(raised)).await;
        let refused = failure(&mut early).await;
        assert!(refused.starts_with(expected), "{refused}");
    }
    assert_eq!(records(&broker).await, 6);
}

/// Copies the log and the cursors to a backup.
const BACK_UP: &str = "
    CREATE SCHEMA backup;
    CREATE TABLE backup.cursors AS TABLE event_store.relay_cursors;
    CREATE TABLE backup.accounts AS TABLE event_store.accounts;
    CREATE TABLE backup.shards AS TABLE event_store.log_shards;";

/// Restores the log from the backup.
const RESTORE_LOG: &str = "
    ALTER TABLE event_store.events DISABLE TRIGGER ALL;
    DELETE FROM event_store.events WHERE position > 6;
    ALTER TABLE event_store.events ENABLE TRIGGER ALL;
    DELETE FROM event_store.slugs WHERE slug_key LIKE 'lost%';
    UPDATE event_store.accounts AS a SET balance = b.balance, version = b.version
    FROM backup.accounts AS b WHERE a.account_id = b.account_id;
    UPDATE event_store.log_shards AS a SET head = b.head
    FROM backup.shards AS b WHERE a.shard = b.shard;";

/// Restores the cursors from the backup.
const RESTORE_CURSORS: &str = "
    DELETE FROM event_store.relay_cursors;
    INSERT INTO event_store.relay_cursors SELECT * FROM backup.cursors;";

async fn append(database: &TestDatabase, account_id: AccountId, names: [&str; 2]) {
    let links = names.map(|name| (name, "https://example.com"));
    testing::append_links(database.pool(), account_id, &links).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_runbook_publishes_log_in_new_epoch() {
    let (former, present) = (TestBroker::embedded(), TestBroker::embedded());
    let (database, account_id) = restored(&former).await;
    let shard = Shard::of(account_id);

    let raise = ["log", "epoch", "raise", "--reason", "restored"];
    assert_eq!(cli::json(database.url(), &raise)["epoch"], 2);
    let mut early = relay(&database, publisher(&former), "early");
    let refused = failure(&mut early).await;
    assert!(refused.starts_with("the log is of epoch 2"), "{refused}");
    run(
        &database,
        "UPDATE event_store.relay_cursors SET lease_expires_at = now()",
    )
    .await;
    republished(&republish(&database, &present, &["--from", "0"]));
    append(&database, account_id, ["after-1", "after-2"]).await;
    publish(&database, &present, (shard, EVENTS + 4)).await;

    Stream::assert_is_the_log(&present.config(), database.pool()).await;
    let stream = Stream::read(&present.config()).await;
    let mut records = stream.records.iter().flatten();
    assert!(records.all(|record| record.log_epoch == 2));
}
