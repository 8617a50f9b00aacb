//! Commands `topic create` and `topic check`.

use std::process::{Command, Output};

use linkledger_core::cloud_event::TOPIC;
use linkledger_testing::TestBroker;
use rdkafka::mocking::MockCluster;
use serde_json::Value;

pub(crate) fn topic(brokers: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_command-api"))
        .arg("topic")
        .args(arguments)
        .env("KAFKA_BROKERS", brokers)
        .output()
        .expect("the command runs")
}

fn stderr(output: &Output) -> &str {
    str::from_utf8(&output.stderr).expect("text")
}

#[test]
fn check_without_broker_settings_covers_partitions() {
    let broker = TestBroker::embedded();
    for verb in ["check", "create"] {
        let output = topic(&broker.config().brokers, &[verb, "--json"]);
        assert!(output.status.success(), "{output:?}");
        let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(checked["topic"], TOPIC);
        assert_eq!(checked["created"], false);
        assert_eq!(checked["empty"], true);
        assert_eq!(checked["settings"][0]["setting"], "partitions");
        assert_eq!(checked["settings"][0]["verdict"], "ok");
        assert_eq!(checked["settings"][1]["verdict"], "unknown");
    }
}

#[test]
fn check_with_wrong_partition_count_fails() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, 4, 1).unwrap();
    let output = topic(&cluster.bootstrap_servers(), &["check"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        shown.contains("wrong: the relay publishes nothing"),
        "{shown}"
    );
    assert!(
        shown.contains("delete it, then `command-api topic create`"),
        "{shown}"
    );
    let expected = format!("error: 1 of the settings of the topic {TOPIC} must be changed\n");
    assert_eq!(stderr(&output), expected);
}

#[test]
fn missing_topic_or_broker_is_explained() {
    let cluster = MockCluster::new(1).unwrap();
    let output = topic(&cluster.bootstrap_servers(), &["check"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "error: the topic {TOPIC} does not exist; create it: `command-api topic create --kafka-topic {TOPIC}`\n"
    );
    assert_eq!(stderr(&output), expected);
    let output = topic("127.0.0.1:1", &["create"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output),
        "error: cannot use Kafka at 127.0.0.1:1: no Kafka broker can be reached; are \
         --kafka-brokers and --kafka-security-protocol right? (127.0.0.1:1/bootstrap: Connect to \
         ipv4#127.0.0.1:1 failed: Connection refused)\n"
    );
}
