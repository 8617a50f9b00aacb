//! Topics that somebody else changes: these tests do nothing unless the tests are told to use an
//! Apache Kafka.

use linkledger_testing as testing;
use linkledger_testing::{TestBroker, stream::Stream};
use rdkafka::{
    admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier},
    client::DefaultClientContext,
};

use super::more_links;
use crate::{
    admin,
    relay::{relay, step_until_stored, stored},
    relay_pause::{PAUSE, status, step_until},
    relay_refill::{EVENTS, published_to, publisher, refill, refilled, refusal},
    topic::topic,
};

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
