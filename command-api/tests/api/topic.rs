//! Commands `topic create` and `topic check`.

use std::process::Output;

use linkledger_core::cloud_event::CLICKS_TOPIC;
use linkledger_core::cloud_event::TOPIC;
use linkledger_testing::TestBroker;
use rdkafka::mocking::MockCluster;
use serde_json::Value;

use crate::cli::topic;

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
        let clicks = &checked["clicks"];
        assert_eq!(clicks["topic"], CLICKS_TOPIC);
        assert_eq!(clicks["created"], false);
        assert_eq!(clicks["empty"], true);
        assert_eq!(clicks["settings"][0]["verdict"], "ok");
    }
}

#[test]
fn topic_of_clicks_is_left_out_on_request() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, 16, 1).unwrap();
    let output = topic(
        &cluster.bootstrap_servers(),
        &["check", "--clicks", "off", "--json"],
    );
    assert!(output.status.success(), "{output:?}");
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(checked["topic"], TOPIC);
    assert_eq!(checked.get("clicks"), None);
}

#[test]
fn check_with_wrong_partition_count_fails() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, 4, 1).unwrap();
    let output = topic(&cluster.bootstrap_servers(), &["check", "--clicks", "off"]);
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
fn check_with_wrong_clicks_partition_count_fails() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, 16, 1).unwrap();
    cluster.create_topic("visits", 4, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    let output = topic(&brokers, &["check", "--kafka-clicks-topic", "visits"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let shown = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(shown.contains("wrong: clicks are lost"), "{shown}");
    assert!(shown.contains("not counted yet are lost"), "{shown}");
    let expected = "error: 1 of the settings of the topic visits must be changed\n";
    assert_eq!(stderr(&output), expected);
}

#[test]
fn topic_of_events_is_refused_for_clicks() {
    for verb in ["check", "create"] {
        let output = topic("127.0.0.1:1", &[verb, "--kafka-clicks-topic", TOPIC]);
        assert_eq!(output.status.code(), Some(1));
        let expected = format!(
            "error: events and clicks need topics of their own; --kafka-topic and \
             --kafka-clicks-topic are both {TOPIC}\n"
        );
        assert_eq!(stderr(&output), expected);
    }
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
    cluster.create_topic(TOPIC, 16, 1).unwrap();
    let output = topic(&cluster.bootstrap_servers(), &["check"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "error: the topic {CLICKS_TOPIC} does not exist; create it: `command-api topic create \
         --kafka-clicks-topic {CLICKS_TOPIC}`, or leave clicks out with --clicks off\n"
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
