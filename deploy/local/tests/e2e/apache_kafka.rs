//! The stack with an Apache Kafka of its own. Tests that start Apache Kafka need Java, and do
//! nothing unless `LINKLEDGER_TEST_KAFKA` asks for Apache Kafka.

use std::{path::Path, process::Output};

use linkledger_service::kafka_config::KafkaConfig;
use linkledger_testing::{TestBroker, eventually, stream::Stream};
use serde_json::json;
use sqlx::PgPool;

use crate::process::{Stack, data_folder, linkledger};

const APACHE: [&str; 2] = ["--kafka", "apache"];

async fn create_links(stack: &Stack, numbers: std::ops::Range<u32>) {
    let http = stack.http();
    for number in numbers {
        let key = format!("00000000-0000-4000-8000-{number:012}");
        let body = json!({ "destination_url": "https://example.com/" });
        assert_eq!(http.create(&key, &body).await.status, 201);
    }
}

/// Waits until the relay has published all events, and asserts that the topic equals the log.
async fn assert_topic_is_the_log(stack: &Stack, links: u32) {
    let environment = stack.environment();
    let pool = PgPool::connect(&environment["DATABASE_URL"]).await.unwrap();
    eventually("the relay is done", async || {
        let backlog = "SELECT sum(head - position)::bigint FROM event_store.relay_cursors
                       JOIN event_store.log_shards USING (shard)";
        let backlog: i64 = sqlx::query_scalar(backlog).fetch_one(&pool).await.unwrap();
        (backlog == 0).then_some(())
    })
    .await;
    let kafka = KafkaConfig::plaintext(environment["KAFKA_BROKERS"].clone());
    Stream::assert_is_the_log(&kafka, &pool).await;
    let events: i64 = sqlx::query_scalar("SELECT count(*) FROM event_store.events")
        .fetch_one(&pool)
        .await
        .unwrap();
    // Three events of the demo account (it, its credits, its key), and two events for each link.
    assert_eq!(events, 3 + 2 * i64::from(links));
}

#[tokio::test(flavor = "multi_thread")]
async fn apache_kafka_has_all_events_after_another_broker() {
    if !TestBroker::is_apache() {
        return;
    }
    let folder = data_folder();
    let embedded = Stack::start(folder.path(), &[]);
    create_links(&embedded, 0..3).await;
    assert_eq!(embedded.interrupt(), Some(0));

    let stack = Stack::start(folder.path(), &APACHE);
    create_links(&stack, 3..5).await;
    assert_topic_is_the_log(&stack, 5).await;
    stack.kill();

    let stack = Stack::start(folder.path(), &APACHE);
    assert_topic_is_the_log(&stack, 5).await;
    assert_eq!(stack.interrupt(), Some(0));

    let embedded = Stack::start(folder.path(), &[]);
    create_links(&embedded, 5..6).await;
    assert_eq!(embedded.interrupt(), Some(0));

    let stack = Stack::start(folder.path(), &APACHE);
    assert_topic_is_the_log(&stack, 6).await;
    assert_eq!(stack.interrupt(), Some(0));
}

fn error(output: &Output) -> &str {
    str::from_utf8(&output.stderr).unwrap()
}

fn started(folder: &Path, arguments: &[&str]) -> std::process::Command {
    let ports = ["--api-port", "0", "--short-port", "0", "--admin-port", "0"];
    linkledger(folder, &[&ports, arguments].concat())
}

#[test]
fn missing_java_error_says_what_to_install() {
    let folder = data_folder();
    let mut command = started(folder.path(), &APACHE);
    let output = command.env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let expected =
        "error: Apache Kafka needs Java 17 or newer (Debian: apt-get install default-jre-headless)";
    // On a busy machine warnings about slow statements come first.
    assert_eq!(error(&output).lines().last(), Some(expected));
}

#[test]
fn own_brokers_conflict_with_the_stack_broker() {
    let folder = data_folder();
    let own = ["--kafka-brokers", "127.0.0.1:1"];
    let output = started(folder.path(), &[&APACHE[..], &own].concat()).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let expected =
        "the argument '--kafka <BROKER>' cannot be used with '--kafka-brokers <ADDRESSES>'";
    assert!(error(&output).contains(expected), "{output:?}");
}
