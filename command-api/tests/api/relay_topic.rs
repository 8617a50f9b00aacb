//! A topic that lacks what was published, or must not be published to, is refused.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use linkledger_command_api::relay::publisher::{EventPublisher, Published};
use linkledger_core::{
    cloud_event::PublishedEvent,
    id::AccountId,
    testing::{self, TestBroker, TestDatabase, stream::Stream},
};
use rdkafka::{
    admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier},
    client::DefaultClientContext,
};
use uuid::Uuid;

use crate::{
    admin,
    relay::{relay, step_until_stored, stored},
    relay_pause::{PAUSE, status, step_until},
    relay_refill::{EVENTS, published_to, publisher, refill, refilled, refusal},
    support::fresh_key,
    topic::topic,
};

/// Links of the account that has some already.
async fn more_links(database: &TestDatabase, count: usize) {
    let account_id: Uuid = sqlx::query_scalar("SELECT DISTINCT account_id FROM event_store.events")
        .fetch_one(database.pool())
        .await
        .unwrap();
    let slugs: Vec<String> = (0..count)
        .map(|_| format!("more-{}", fresh_key()))
        .collect();
    let links: Vec<_> = slugs
        .iter()
        .map(|slug| (slug.as_str(), "https://e.com"))
        .collect();
    let account_id = AccountId::from_uuid(account_id);
    testing::append_links(database.pool(), account_id, &links).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_lacks_the_last_record_is_refused() {
    let broker = TestBroker::start().await;
    let (database, shard) = published_to(&broker).await;
    // As if the topic had been longer.
    sqlx::query("UPDATE event_store.relay_cursors SET record_offset = 6 WHERE shard = $1")
        .bind(shard.number())
        .execute(database.pool())
        .await
        .unwrap();
    let mut relay = relay(&database, publisher(&broker), "one");
    let error = relay.step().await.unwrap_err().to_string();
    let expected = format!("the last record of shard {shard} was at offset 6");
    assert!(error.starts_with(&expected), "{error}");
    assert!(error.contains(" ends at 6: it was created anew"), "{error}");
}

/// Takes everything, at the offsets that are given.
struct Offsets(Arc<Mutex<i64>>);

#[async_trait]
impl EventPublisher for Offsets {
    async fn publish(&self, events: &[PublishedEvent]) -> Published {
        let mut next = self.0.lock().unwrap();
        let mut published = Published::default();
        for event in events {
            let shard = event.event.shard.index();
            published.acknowledged[shard] = Some(event.event.position);
            let (lowest, _) = published.offsets[shard].unwrap_or((*next, *next));
            published.offsets[shard] = Some((lowest, *next));
            *next += 1;
        }
        published
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_begins_again_under_a_running_relay_is_noticed_and_stays_refused() {
    let broker = TestBroker::embedded();
    let (database, shard) = published_to(&broker).await;
    let next = Arc::new(Mutex::new(0));
    let mut running = relay(&database, Offsets(Arc::clone(&next)), "one");
    // More than there were: what is counted afterwards looks like the topic before.
    more_links(&database, 20).await;
    let error = running.step().await.unwrap_err().to_string();
    assert!(
        error.starts_with("the topic began again while it was published to"),
        "{error}"
    );
    assert_eq!(stored(&database, shard).await, EVENTS);
    let mut restarted = relay(&database, publisher(&broker), "one");
    let error = restarted.step().await.unwrap_err().to_string();
    assert!(
        error.starts_with("the topic began again while it was published to"),
        "{error}"
    );
}

fn admin_client(broker: &TestBroker) -> AdminClient<DefaultClientContext> {
    broker.client().create().unwrap()
}

async fn set(broker: &TestBroker, name: &str, value: &str) {
    let altered = AlterConfig::new(ResourceSpecifier::Topic(broker.topic())).set(name, value);
    let client = admin_client(broker);
    let altered = client.alter_configs([&altered], &AdminOptions::new());
    assert!(altered.await.unwrap()[0].is_ok());
}

/// Deletes the topic and creates it by our own command.
async fn create_anew(broker: &TestBroker) {
    let client = admin_client(broker);
    let deleted = client.delete_topics(&[broker.topic()], &AdminOptions::new());
    assert!(deleted.await.unwrap()[0].is_ok());
    let created = testing::eventually("the topic is created", || async {
        let arguments = ["create", "--json", "--kafka-topic", broker.topic()];
        let output = topic(&broker.bootstrap_servers(), &arguments);
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        (shown["created"] == true).then_some(shown)
    })
    .await;
    assert_eq!(created["empty"], true);
    assert_eq!(created["remedies"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_was_deleted_and_created_under_a_running_relay_is_filled_again() {
    if !TestBroker::is_apache() {
        return;
    }
    let broker = TestBroker::apache().await;
    let (database, shard) = published_to(&broker).await;
    let mut running = relay(&database, publisher(&broker), "one");
    more_links(&database, 2).await;
    step_until_stored(&mut running, &database, (shard, EVENTS + 4)).await;
    create_anew(&broker).await;
    more_links(&database, 3).await;
    // It is noticed by what follows, whatever that is; then the reason stays.
    let mut reasons = Vec::new();
    while reasons
        .last()
        .is_none_or(|it: &String| !it.contains("relay refill --from 0"))
    {
        reasons.extend(running.step().await.err().map(|error| format!("{error:#}")));
    }
    assert_eq!(stored(&database, shard).await, EVENTS + 4);

    // What was sent before it was noticed is in the way of a refill.
    admin::json(database.url(), &PAUSE);
    step_until(&mut running, "its producer has ended", async || {
        status(&database)["producers"] == serde_json::json!([])
    })
    .await;
    let full = refill(&database, &broker, &["--from", "0"]);
    if !full.status.success() {
        assert!(refusal(&full).contains("a refill goes only into an empty one"));
        create_anew(&broker).await;
        refilled(&refill(&database, &broker, &["--from", "0"]));
    }
    admin::json(database.url(), &["relay", "resume"]);
    let mut running = relay(&database, publisher(&broker), "one");
    step_until_stored(&mut running, &database, (shard, EVENTS + 10)).await;
    let repeated = Stream::assert_is_the_log(&broker.config(), database.pool()).await;
    assert_eq!(repeated, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_was_compacted_or_too_small_is_taken_once_it_is_mended() {
    if !TestBroker::is_apache() {
        return;
    }
    let broker = TestBroker::apache().await;
    let (database, shard) = published_to(&broker).await;
    more_links(&database, 1).await;
    for (name, bad, good, reason) in [
        (
            "cleanup.policy",
            "compact",
            "delete",
            "cleanup.policy=compact: compaction removes",
        ),
        (
            "max.message.bytes",
            "1000",
            "1048576",
            "takes batches of 1000 bytes, the relay sends",
        ),
    ] {
        set(&broker, name, bad).await;
        let mut waiting = relay(&database, publisher(&broker), "one");
        let error = waiting.step().await.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        let checked = topic(
            &broker.bootstrap_servers(),
            &["check", "--kafka-topic", broker.topic()],
        );
        assert_eq!(checked.status.code(), Some(1));
        let shown = String::from_utf8(checked.stdout).unwrap();
        assert!(
            shown.contains("wrong: the relay publishes nothing"),
            "{shown}"
        );
        assert!(
            shown.contains(&format!("--add-config {name}={good}")),
            "{shown}"
        );
        set(&broker, name, good).await;
        let end = stored(&database, shard).await + 2;
        step_until_stored(&mut waiting, &database, (shard, end)).await;
        more_links(&database, 1).await;
    }
}
