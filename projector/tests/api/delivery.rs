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
    cycles::cycle_until_idle, events::destination_changed, fixture::Fixture, poisoned::parkings,
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
    async fn of(fixture: &Fixture) -> Self {
        let pool = fixture.database.pool().clone();
        let mut consumer = Consumer::new(&fixture.config(), pool).unwrap();
        consumer.set_shards(&Shard::all().collect()).unwrap();
        let mut listener = Self {
            consumer,
            followers: fixture.followers(),
            account_id: fixture.account_with_links("listener", 1).await,
        };
        let until = Instant::now() + Duration::from_mins(2);
        for nth in 0.. {
            assert!(Instant::now() < until, "nothing is received");
            fixture
                .append_links(listener.account_id, &format!("call-{nth}"), 1)
                .await;
            let log = fixture.log().await;
            let call = log.last().unwrap();
            fixture.publish(std::slice::from_ref(call)).await;
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
    async fn assert_complete(mut self, fixture: &Fixture) {
        cycle_until_idle(&mut self.followers).await;
        let tables = Tables::read(fixture.database.pool()).await;
        assert_eq!(tables, Tables::of_log(&fixture.log().await));
        self.consumer.close().await;
    }
}

#[tokio::test]
async fn published_and_repeated_events_reach_all_read_tables() {
    let fixture = Fixture::new().await;
    let mut listener = Listener::of(&fixture).await;
    let before = fixture.log().await.len();
    fixture.append_links(listener.account_id, "first", 20).await;
    let log = fixture.log().await;
    fixture.publish(&log[before..]).await;
    fixture.publish(&log[before + 5..]).await;
    fixture.append_links(listener.account_id, "later", 3).await;
    let log = fixture.log().await;
    fixture.publish(&log[before + 40..]).await;
    let received = listener.apply_until(log.last().unwrap()).await;
    assert_eq!(received.len(), 40 + 35 + 6);
    listener.assert_complete(&fixture).await;
}

#[tokio::test]
async fn gaps_and_foreign_records_are_repaired_from_log() {
    let fixture = Fixture::new().await;
    let mut listener = Listener::of(&fixture).await;
    let before = fixture.log().await.len();
    fixture.append_links(listener.account_id, "hole", 10).await;
    let log = fixture.log().await;
    let news = &log[before..];
    fixture.publish(&news[..4]).await;
    let shard = Shard::of(listener.account_id);
    fixture
        .publish_record(shard, OwnedHeaders::new(), "what is this")
        .await;
    fixture.publish(&news[9..12]).await;
    fixture.publish(&news[15..]).await;
    let received = listener.apply_until(news.last().unwrap()).await;
    assert_eq!(received.len(), 4 + 3 + 5);
    listener.assert_complete(&fixture).await;
}

#[tokio::test]
async fn running_projector_applies_what_is_published() {
    let fixture = Fixture::new().await;
    let projector = fixture.projector().await;
    for name in ["first", "second", "third"] {
        let published = fixture.log().await.len();
        fixture.account_with_links(name, 20).await;
        fixture.publish(&fixture.log().await[published..]).await;
        fixture.eventually_complete().await;
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
    let fixture = Fixture::new().await;
    let mut listener = Listener::of(&fixture).await;
    let account_id = listener.account_id;
    let begun = fixture.log().await.len();
    for (nth, forge) in forgeries.iter().enumerate() {
        let name = format!("link-{nth}");
        let link = fixture.append_links(account_id, &name, 1).await.remove(0);
        let change = destination_changed(&link, "https://example.com/1");
        fixture.append(account_id, &[change]).await;
        let log = fixture.log().await;
        let [before @ .., last] = &log[log.len() - 3..] else {
            unreachable!("three are asked for")
        };
        fixture.publish(before).await;
        let mut forged = (last.headers(), last.event.payload.clone());
        forge(&mut forged);
        // Of two records with one position, the first would count.
        let headers = forged.0.iter().map(|(key, value)| Header {
            key,
            value: Some(value),
        });
        let headers = headers.fold(OwnedHeaders::new(), OwnedHeaders::insert);
        fixture
            .publish_record(last.event.shard, headers, &forged.1)
            .await;
        fixture.publish(std::slice::from_ref(last)).await;
    }
    let log = fixture.log().await;
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
    let pool = fixture.database.pool();
    assert_eq!(parkings(pool, account_id).await, []);
    let log = fixture.log().await;
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
}

#[tokio::test]
async fn records_of_later_epoch_are_replaced_by_log() {
    let fixture = Fixture::new().await;
    fixture.account_with_links("epoch", 2).await;
    let log = fixture.log().await;
    let mut later = log.clone();
    for record in &mut later[1..] {
        record.log_epoch = 2;
        record.event.payload = "{}".to_owned();
    }
    let mut followers = fixture.followers();
    followers.cycle(later).await.unwrap();
    while followers.has_work() {
        followers.cycle(Vec::new()).await.unwrap();
    }
    assert_eq!(
        Tables::read(fixture.database.pool()).await,
        Tables::of_log(&log)
    );
}

#[tokio::test]
async fn events_lost_by_log_are_not_applied() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("kept", 1).await;
    let kept = fixture.log().await;
    let pool = fixture.database.pool();
    fixture.append_links(account_id, "lost", 2).await;
    let published = fixture.log().await;
    let lose = format!(
        "ALTER TABLE event_store.events DISABLE TRIGGER ALL;
         DELETE FROM event_store.events WHERE position > {0};
         DELETE FROM event_store.slugs WHERE slug_key LIKE 'lost%';
         UPDATE event_store.log_shards SET head = least(head, {0});
         UPDATE event_store.accounts SET version = 2, balance = balance + 2;
         ALTER TABLE event_store.events ENABLE TRIGGER ALL;",
        kept.len()
    );
    let lose = sqlx::raw_sql(sqlx::AssertSqlSafe(lose)).execute(pool);
    lose.await.unwrap();
    let mut followers = fixture.followers();
    followers.cycle(published.clone()).await.unwrap();
    while followers.has_work() {
        followers.cycle(Vec::new()).await.unwrap();
    }
    assert_eq!(Tables::read(pool).await, Tables::of_log(&kept));

    // The log grows to its former length with other events.
    fixture.append_links(account_id, "new", 2).await;
    followers
        .cycle(published[kept.len()..].to_vec())
        .await
        .unwrap();
    while followers.has_work() {
        followers.cycle(Vec::new()).await.unwrap();
    }
    let log = fixture.log().await;
    assert_eq!(log.len(), published.len());
    assert_eq!(Tables::read(pool).await, Tables::of_log(&log));
}
