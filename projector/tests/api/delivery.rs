//! Deliveries of the topic: in order, repeated, incomplete, and with foreign records.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use linkledger_core::{cloud_event::PublishedEvent, id::AccountId, shard::Shard};
use linkledger_projector::pipeline::{consumer::Consumer, followers::Followers};
use rdkafka::message::{Header, OwnedHeaders};
use tokio::time::sleep;

use crate::{
    cycles::cycle_until_idle, events::destination_changed, poisoned::parkings, stage::Stage,
    tables::Tables,
};

/// A consumer that has received a record of a shard, and so gets all that is published there from now on, and followers
/// that have applied the log up to then.
struct Listener {
    consumer: Consumer,
    followers: Followers,
    account_id: AccountId,
}

impl Listener {
    async fn of(stage: &Stage) -> Self {
        let pool = stage.database.pool().clone();
        let mut consumer = Consumer::new(&stage.config(), pool).unwrap();
        consumer.set_shards(&Shard::all().collect()).unwrap();
        let mut listener = Self {
            consumer,
            followers: stage.followers(),
            account_id: stage.account_with_links("listener", 1).await,
        };
        let until = Instant::now() + Duration::from_mins(2);
        for nth in 0.. {
            assert!(Instant::now() < until, "nothing is received");
            stage
                .append_links(listener.account_id, &format!("call-{nth}"), 1)
                .await;
            let log = stage.log().await;
            let call = log.last().unwrap();
            stage.publish(std::slice::from_ref(call)).await;
            let received = listener.receive(sleep(Duration::from_millis(200))).await;
            // An earlier call may come late.
            if received
                .iter()
                .any(|it| it.event.event_id == call.event.event_id)
            {
                break;
            }
        }
        cycle_until_idle(&mut listener.followers).await;
        listener
    }

    async fn receive(&mut self, deadline: impl Future<Output = ()>) -> Vec<PublishedEvent> {
        self.consumer.receive(1_000, deadline).await.unwrap()
    }

    /// Receives what was published up to this event, and applies it.
    async fn apply_until(&mut self, last: &PublishedEvent) -> Vec<PublishedEvent> {
        let until = Instant::now() + Duration::from_mins(2);
        let mut received = Vec::new();
        let is_last = |it: &PublishedEvent| it.event.event_id == last.event.event_id;
        while !received.last().is_some_and(is_last) {
            assert!(
                Instant::now() < until,
                "{} is not received",
                last.event.position
            );
            let some = self.receive(sleep(Duration::from_secs(1))).await;
            received.extend(some.clone());
            self.followers.cycle(some).await.unwrap();
        }
        received
    }

    /// Applies what is left, and compares the tables with the log.
    async fn assert_complete(mut self, stage: &Stage) {
        cycle_until_idle(&mut self.followers).await;
        let tables = Tables::read(stage.database.pool()).await;
        assert_eq!(tables, Tables::of_log(&stage.log().await));
        self.consumer.close().await;
    }
}

#[tokio::test]
async fn published_and_repeated_events_reach_all_read_tables() {
    let stage = Stage::set().await;
    let mut listener = Listener::of(&stage).await;
    let before = stage.log().await.len();
    stage.append_links(listener.account_id, "first", 20).await;
    let log = stage.log().await;
    stage.publish(&log[before..]).await;
    stage.publish(&log[before + 5..]).await;
    stage.append_links(listener.account_id, "later", 3).await;
    let log = stage.log().await;
    stage.publish(&log[before + 40..]).await;
    let received = listener.apply_until(log.last().unwrap()).await;
    assert_eq!(received.len(), 40 + 35 + 6);
    listener.assert_complete(&stage).await;
}

#[tokio::test]
async fn gaps_and_foreign_records_are_repaired_from_log() {
    let stage = Stage::set().await;
    let mut listener = Listener::of(&stage).await;
    let before = stage.log().await.len();
    stage.append_links(listener.account_id, "hole", 10).await;
    let log = stage.log().await;
    let news = &log[before..];
    stage.publish(&news[..4]).await;
    let shard = Shard::of(listener.account_id);
    stage
        .publish_record(shard, OwnedHeaders::new(), "what is this")
        .await;
    stage.publish(&news[9..12]).await;
    stage.publish(&news[15..]).await;
    let received = listener.apply_until(news.last().unwrap()).await;
    assert_eq!(received.len(), 4 + 3 + 5);
    listener.assert_complete(&stage).await;
}

#[tokio::test]
async fn running_projector_applies_what_is_published() {
    let stage = Stage::set().await;
    let projector = stage.projector().await;
    for name in ["first", "second", "third"] {
        let published = stage.log().await.len();
        stage.account_with_links(name, 20).await;
        stage.publish(&stage.log().await[published..]).await;
        stage.eventually_complete().await;
    }
    projector.stop().await;
}

/// Headers and value of a record.
type Record = (Vec<(&'static str, String)>, String);

fn set((headers, _): &mut Record, name: &str, value: &str) {
    let header = headers.iter_mut().find(|(it, _)| *it == name);
    value.clone_into(&mut header.unwrap().1);
}

#[tokio::test]
async fn forged_and_altered_records_change_nothing() {
    let evil = r#"{"slug":"evil","created_at":"2026-11-20T09:51:00.123Z","destination_url":"https://evil.example/"}"#;
    let forgeries: &[&dyn Fn(&mut Record)] = &[
        &|it| set(it, "ce_linkstate", evil),
        &|it| {
            set(it, "ce_linkstate", evil);
            it.0.retain(|(name, _)| *name != "ce_mac");
        },
        &|it| it.0.push(("ce_linkstate", evil.to_owned())),
        &|it| it.0.retain(|(name, _)| *name != "ce_linkstate"),
        &|it| "{".clone_into(&mut it.1),
        &|it| set(it, "ce_logepoch", &i32::MAX.to_string()),
        &|it| set(it, "ce_sequence", "00000000000001000000"),
        // The same instant for a reader of milliseconds.
        &|it| set(it, "ce_time", &it.0[6].1.replace('Z', "999Z")),
    ];
    let stage = Stage::set().await;
    let mut listener = Listener::of(&stage).await;
    let account_id = listener.account_id;
    let begun = stage.log().await.len();
    for (nth, forge) in forgeries.iter().enumerate() {
        let name = format!("link-{nth}");
        let link = stage.append_links(account_id, &name, 1).await.remove(0);
        let change = destination_changed(&link, "https://example.com/1");
        stage.append(account_id, &[change]).await;
        let log = stage.log().await;
        let [before @ .., last] = &log[log.len() - 3..] else {
            unreachable!("three are asked for")
        };
        stage.publish(before).await;
        let mut forged = (last.headers(), last.event.payload.clone());
        forge(&mut forged);
        // Of two records with one position, the first would count.
        let headers = forged.0.iter().map(|(key, value)| Header {
            key,
            value: Some(value),
        });
        let headers = headers.fold(OwnedHeaders::new(), OwnedHeaders::insert);
        stage
            .publish_record(last.event.shard, headers, &forged.1)
            .await;
        stage.publish(std::slice::from_ref(last)).await;
    }
    let log = stage.log().await;
    let received = listener.apply_until(log.last().unwrap()).await;
    // A record lacks what only answers to requests need.
    let records = |events: &[PublishedEvent]| -> Vec<Record> {
        let records = events.iter();
        records
            .map(|it| (it.headers(), it.event.payload.clone()))
            .collect()
    };
    assert_eq!(records(&received), records(&log[begun..]));
    cycle_until_idle(&mut listener.followers).await;
    listener.consumer.close().await;
    let pool = stage.database.pool();
    assert_eq!(parkings(pool, account_id).await, []);
    let log = stage.log().await;
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
}

#[tokio::test]
async fn records_of_later_epoch_are_replaced_by_log() {
    let stage = Stage::set().await;
    stage.account_with_links("epoch", 2).await;
    let log = stage.log().await;
    let mut later = log.clone();
    for record in &mut later[1..] {
        record.log_epoch = 2;
        record.event.payload = "{}".to_owned();
    }
    let mut followers = stage.followers();
    followers.cycle(later).await.unwrap();
    while followers.has_work() {
        followers.cycle(Vec::new()).await.unwrap();
    }
    assert_eq!(
        Tables::read(stage.database.pool()).await,
        Tables::of_log(&log)
    );
}

#[tokio::test]
async fn events_lost_by_log_are_not_applied() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("kept", 1).await;
    let kept = stage.log().await;
    let pool = stage.database.pool();
    stage.append_links(account_id, "lost", 2).await;
    let published = stage.log().await;
    let lose = format!(
        "ALTER TABLE event_store.events DISABLE TRIGGER ALL;
         DELETE FROM event_store.events WHERE position > {0};
         DELETE FROM event_store.slugs WHERE slug_folded LIKE 'lost%';
         UPDATE event_store.log_shards SET head = least(head, {0});
         UPDATE event_store.accounts SET version = 2, balance = balance + 2;
         ALTER TABLE event_store.events ENABLE TRIGGER ALL;",
        kept.len()
    );
    let lose = sqlx::raw_sql(sqlx::AssertSqlSafe(lose)).execute(pool);
    lose.await.unwrap();
    let mut followers = stage.followers();
    followers.cycle(published.clone()).await.unwrap();
    while followers.has_work() {
        followers.cycle(Vec::new()).await.unwrap();
    }
    assert_eq!(Tables::read(pool).await, Tables::of_log(&kept));

    // The log grows to its former length with other events.
    stage.append_links(account_id, "new", 2).await;
    followers
        .cycle(published[kept.len()..].to_vec())
        .await
        .unwrap();
    while followers.has_work() {
        followers.cycle(Vec::new()).await.unwrap();
    }
    let log = stage.log().await;
    assert_eq!(log.len(), published.len());
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
}
