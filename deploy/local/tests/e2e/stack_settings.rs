//! Settings of the stack: those of its services from the environment, and the fixed port of its broker.

use std::{net::TcpListener, time::Duration};

use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer as _},
};

use crate::process::{Stack, data_folder, linkledger};

const ORIGIN: &str = "https://app.example.com";

#[tokio::test]
async fn settings_of_services_are_applied_or_named() {
    let folder = data_folder();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let variables = [("CORS_ALLOWED_ORIGINS", ORIGIN), ("REDIRECT_STATUS", "307")];
    let stack = Stack::start_with(folder.path(), &["--kafka-port", &port], &variables);
    let environment = stack.environment();
    let http = stack.http();
    for method in ["POST", "GET"] {
        let headers = [
            ("origin", ORIGIN),
            ("access-control-request-method", method),
        ];
        let preflight = http.request("OPTIONS", "/v1/links", &headers, None).await;
        assert_eq!(
            preflight.header("access-control-allow-origin"),
            ORIGIN,
            "{method}"
        );
        // Of command-api, and of query-api.
        let answer = http.request(method, "/v1/links", &headers[..1], None).await;
        assert_eq!(
            answer.header("access-control-allow-origin"),
            ORIGIN,
            "{method}"
        );
    }

    let brokers = format!("127.0.0.1:{port}");
    assert_eq!(environment["KAFKA_BROKERS"], brokers);
    let mut config = ClientConfig::new();
    let consumer: BaseConsumer = config.set("bootstrap.servers", &brokers).create().unwrap();
    let topic = Some(environment["KAFKA_TOPIC"].as_str());
    let metadata = consumer
        .fetch_metadata(topic, Duration::from_secs(30))
        .unwrap();
    assert_eq!(metadata.topics()[0].partitions().len(), 16);
    assert_eq!(stack.interrupt(), Some(0));
}

#[test]
fn invalid_setting_of_a_service_ends_the_start() {
    for (name, value) in [
        ("CORS_ALLOWED_ORIGINS", "https://app.example.com/"),
        ("REDIRECT_STATUS", "303"),
        ("DATABASE_POOL_SIZE", "0"),
    ] {
        let folder = data_folder();
        let mut command = linkledger(folder.path(), &["--api-port", "0"]);
        let output = command.env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            error.starts_with("error: ") && error.contains(name),
            "{error}"
        );
        assert!(error.contains(value) && !error.contains("--"), "{error}");
    }
}

#[test]
fn ignored_setting_is_named_with_its_remedy() {
    let folder = data_folder();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    // The start ends at the port, after the warnings.
    let mut command = linkledger(folder.path(), &["--api-port", &port]);
    command
        .env("RATE_LIMIT", "5")
        .env("BASE_URL", "https://api.example.com");
    command.env("LOG_FORMAT", "json");
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("warning: RATE_LIMIT is ignored; the stack reads LINKLEDGER_RATE_LIMIT"),
        "{error}"
    );
    assert!(
        error.contains("warning: BASE_URL, LOG_FORMAT are ignored"),
        "{error}"
    );
}
