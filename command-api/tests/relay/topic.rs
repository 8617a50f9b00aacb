//! Refusal of topics that lack published records or have wrong settings.

mod apache;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use linkledger_command_api::relay::publisher::{EventPublisher, Published};
use linkledger_core::{cloud_event::PublishedEvent, id::AccountId};
use linkledger_testing as testing;
use linkledger_testing::{TestBroker, TestDatabase};
use uuid::Uuid;

use crate::{
    fixture::{relay, stored},
    republish::{EVENTS, published_to, publisher},
    support::fresh_key,
};

/// Appends links to the existing account.
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
async fn topic_without_last_record_is_refused() {
    let broker = TestBroker::start().await;
    let (database, shard) = published_to(&broker).await;
    // The stored offset is beyond the end of the topic.
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

/// Publisher that acknowledges all events at given offsets.
struct Offsets(Arc<Mutex<i64>>);

#[async_trait]
impl EventPublisher for Offsets {
    fn for_retries(self: Arc<Self>) -> Arc<dyn EventPublisher> {
        self
    }

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
async fn new_relay_detects_recreated_topic() {
    let broker = TestBroker::embedded();
    let (database, shard) = published_to(&broker).await;
    // Cursors without offsets, as after a rewind by the stack.
    sqlx::query("UPDATE event_store.relay_cursors SET record_offset = NULL")
        .execute(database.pool())
        .await
        .unwrap();
    relay(&database, publisher(&broker), "one")
        .step()
        .await
        .unwrap();
    more_links(&database, 1).await;
    let mut running = relay(&database, Offsets(Arc::new(Mutex::new(0))), "one");
    let error = running.step().await.unwrap_err().to_string();
    assert!(
        error.starts_with("the topic began again while it was published to"),
        "{error}"
    );
    assert_eq!(stored(&database, shard).await, EVENTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn recreated_topic_is_noticed_and_stays_refused() {
    let broker = TestBroker::embedded();
    let (database, shard) = published_to(&broker).await;
    let next = Arc::new(Mutex::new(0));
    let mut running = relay(&database, Offsets(Arc::clone(&next)), "one");
    // More records than before: the end of the new topic is beyond the stored offset.
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
