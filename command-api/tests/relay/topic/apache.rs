//! Topics that another program changes. These tests do nothing unless the tests use an Apache Kafka.

use linkledger_testing as testing;
use linkledger_testing::{TestBroker, stream::Stream};
use rdkafka::{
    admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier},
    client::DefaultClientContext,
};

use super::more_links;
use crate::{
    cli::{self, topic},
    fixture::{relay, step_until_stored, stored},
    pause::{PAUSE, status, step_until},
    republish::{EVENTS, published_to, publisher, refusal, republish, republished},
};

fn admin_client(broker: &TestBroker) -> AdminClient<DefaultClientContext> {
    broker.client().create().unwrap()
}

/// Sets it, and waits until the broker says so: the controller answers before the broker has heard of it.
async fn set(broker: &TestBroker, name: &str, value: &str) {
    let topic = ResourceSpecifier::Topic(broker.topic());
    let altered = AlterConfig::new(topic).set(name, value);
    let client = admin_client(broker);
    let altered = client.alter_configs([&altered], &AdminOptions::new());
    assert!(altered.await.unwrap()[0].is_ok());
    testing::eventually("the topic has its new setting", || async {
        let described = client.describe_configs([&topic], &AdminOptions::new());
        let described = described.await.unwrap().remove(0).unwrap();
        (described.get(name)?.value.as_deref() == Some(value)).then_some(())
    })
    .await;
}

/// Deletes the topic and creates the topic by `topic create`.
async fn create_anew(broker: &TestBroker) {
    let client = admin_client(broker);
    let deleted = client.delete_topics(&[broker.topic()], &AdminOptions::new());
    assert!(deleted.await.unwrap()[0].is_ok());
    let created = testing::eventually("the topic is created", || async {
        let arguments = [
            "create",
            "--json",
            "--clicks",
            "off",
            "--kafka-topic",
            broker.topic(),
        ];
        let output = topic(&broker.bootstrap_servers(), &arguments);
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        (shown["created"] == true).then_some(shown)
    })
    .await;
    assert_eq!(created["empty"], true);
    assert_eq!(created["remedies"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn recreated_topic_is_republished() {
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
    // The next failure of any kind reveals the new topic; then the refusal stays.
    let mut reasons = Vec::new();
    while reasons
        .last()
        .is_none_or(|it: &String| !it.contains("relay republish --from 0"))
    {
        reasons.extend(running.step().await.err().map(|error| format!("{error:#}")));
    }
    assert_eq!(stored(&database, shard).await, EVENTS + 4);

    // Records that were sent before the refusal prevent a republish.
    cli::json(database.url(), &PAUSE);
    step_until(&mut running, "its producer has ended", async || {
        status(&database)["producers"] == serde_json::json!([])
    })
    .await;
    let full = republish(&database, &broker, &["--from", "0"]);
    if !full.status.success() {
        assert!(refusal(&full).contains("a republish goes only into an empty one"));
        create_anew(&broker).await;
        republished(&republish(&database, &broker, &["--from", "0"]));
    }
    cli::json(database.url(), &["relay", "resume"]);
    let mut running = relay(&database, publisher(&broker), "one");
    step_until_stored(&mut running, &database, (shard, EVENTS + 10)).await;
    let repeated = Stream::assert_is_the_log(&broker.config(), database.pool()).await;
    assert_eq!(repeated, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn compacted_topic_is_accepted_after_the_fix() {
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
            &["check", "--clicks", "off", "--kafka-topic", broker.topic()],
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

#[tokio::test(flavor = "multi_thread")]
async fn event_of_fast_clock_is_published() {
    if !TestBroker::is_apache() {
        return;
    }
    let broker = TestBroker::apache().await;
    let (database, shard) = published_to(&broker).await;
    let ahead = async |hours: i32| {
        more_links(&database, 1).await;
        let turned = format!(
            "ALTER TABLE event_store.events DISABLE TRIGGER USER;
             UPDATE event_store.events SET recorded_at = now() + interval '{hours} hours'
             WHERE position = (SELECT max(position) FROM event_store.events);
             ALTER TABLE event_store.events ENABLE TRIGGER USER"
        );
        let turned = sqlx::raw_sql(sqlx::AssertSqlSafe(turned));
        turned.execute(database.pool()).await.unwrap();
    };
    ahead(47).await;
    let mut running = relay(&database, publisher(&broker), "one");
    step_until_stored(&mut running, &database, (shard, EVENTS + 2)).await;

    // The default of Kafka 4.
    set(&broker, "message.timestamp.after.max.ms", "3600000").await;
    ahead(2).await;
    let reason = loop {
        running.step().await.ok();
        let number = shard.index();
        if let Some(reason) = status(&database)["shards"][number]["refusal"].as_str() {
            break reason.to_owned();
        }
    };
    assert!(
        reason.contains("message.timestamp.after.max.ms without a limit"),
        "{reason}"
    );
    let checked = topic(
        &broker.bootstrap_servers(),
        &["check", "--clicks", "off", "--kafka-topic", broker.topic()],
    );
    assert_eq!(checked.status.code(), Some(1));
    let shown = String::from_utf8(checked.stdout).unwrap();
    let remedy = "message.timestamp.after.max.ms=9223372036854775807";
    assert!(shown.contains(remedy), "{shown}");
    set(
        &broker,
        "message.timestamp.after.max.ms",
        "9223372036854775807",
    )
    .await;
    step_until_stored(&mut running, &database, (shard, EVENTS + 4)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn created_topic_of_clicks_has_the_right_settings() {
    if !TestBroker::is_apache() {
        return;
    }
    let broker = TestBroker::apache().await;
    let clicks_topic = format!("{}-new-clicks", broker.topic());
    let arguments = ["--kafka-topic", broker.topic(), "--kafka-clicks-topic"];
    let arguments = [&arguments[..], &[&clicks_topic, "--json"]].concat();
    let run = |verb, retention| {
        let of_clicks = [
            &[verb, "--clicks-retention-days", retention],
            &arguments[..],
        ]
        .concat();
        let output = topic(&broker.bootstrap_servers(), &of_clicks);
        let shown: Result<serde_json::Value, _> = serde_json::from_slice(&output.stdout);
        shown.unwrap_or_else(|_| panic!("{output:?}"))["clicks"].clone()
    };
    let created = run("create", "7");
    assert_eq!(created["created"], true);
    assert_eq!(created["remedies"], serde_json::json!([]));
    let checked = run("check", "8");
    assert_eq!(checked["created"], false);
    let remedy = checked["remedies"][0].as_str().unwrap();
    let expected = format!("--entity-name {clicks_topic} --add-config retention.ms=691200000");
    assert!(remedy.ends_with(&expected), "{remedy}");
}
