//! Topics with the rights of `deploy/kafka/acls`, a database, and the services as processes.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Output},
    sync::atomic::{AtomicI64, Ordering},
};

use linkledger_core::{
    api_key::Scope,
    clock::{Clock as _, SystemClock, new_uuid},
};
use linkledger_service::kafka_config::KafkaConfig;
use linkledger_testing as testing;
use linkledger_testing::{TestDatabase, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::secure_kafka::{OPERATOR, SecureKafka};
use crate::{
    http::Http,
    scrape::Scrape,
    services::{free_address, program},
};

/// Message of a relay that waits for its broker.
const BROKER_IS_SLOW: &str = "the broker acknowledges nothing";

/// The fixture of a test: topic, database and users.
pub(crate) struct Fixture {
    kafka: &'static SecureKafka,
    pub(crate) database: TestDatabase,
    pub(crate) folder: TempDir,
    topic: String,
    http: Http,
    /// Number of links.
    created: AtomicI64,
    internal: String,
    projector_internal: String,
    programs: [PathBuf; 2],
}

impl Fixture {
    /// Makes a fixture with a topic of this name and one of clicks, created by `command-api topic create` over TLS.
    pub(crate) async fn new(topic: &str) -> Self {
        let database = TestDatabase::create().await;
        let account_id = testing::account(database.pool(), 10_000).await;
        let key = testing::api_key(database.pool(), account_id, &Scope::ALL).await;
        let url = format!("http://{}", free_address());
        let fixture = Self {
            kafka: SecureKafka::shared().await,
            database,
            folder: tempfile::tempdir().unwrap(),
            topic: topic.to_owned(),
            http: Http::new(url, key.reveal().to_owned()),
            created: AtomicI64::new(0),
            internal: free_address(),
            projector_internal: free_address(),
            programs: [program("command-api"), program("projector")],
        };
        fixture.grant_rights();
        let output = fixture.topic_command("create", &fixture.user(OPERATOR));
        assert!(output.status.success(), "{output:?}");
        fixture
    }

    /// Gives the users the rights of `deploy/kafka/acls`.
    pub(crate) fn grant_rights(&self) {
        let folder = self.folder.path();
        let topics = [self.topic.as_str(), &self.clicks_topic()];
        self.kafka.grant_rights(topics, folder);
    }

    /// Revokes the right of a user to read the topic.
    pub(crate) fn revoke_read(&self, user: &str) {
        let folder = self.folder.path();
        self.kafka.revoke(user, "Read", &self.topic, folder);
    }

    /// Sets the cursors of the relay back, as if a crash had come after publishing and before the
    /// cursors were stored.
    pub(crate) async fn forget_what_was_published(&self) {
        let forget = "UPDATE event_store.relay_cursors
            SET position = 0, record_offset = NULL, lease_expires_at = now();
            DELETE FROM event_store.relay_producers";
        let forget = sqlx::raw_sql(forget).execute(self.database.pool());
        forget.await.unwrap();
    }

    fn clicks_topic(&self) -> String {
        format!("{}-clicks", self.topic)
    }

    /// Returns the Kafka settings of a user of the topic of clicks.
    pub(crate) fn user_of_clicks(&self, name: &str) -> KafkaConfig {
        let topic = self.clicks_topic();
        self.kafka.config(name, &topic, self.folder.path())
    }

    /// Returns the Kafka settings of a user.
    pub(crate) fn user(&self, name: &str) -> KafkaConfig {
        self.kafka.config(name, &self.topic, self.folder.path())
    }

    /// Runs `command-api topic …`, and waits for its end.
    pub(crate) fn topic_command(&self, name: &str, kafka: &KafkaConfig) -> Output {
        let mut command = Command::new(&self.programs[0]);
        command.args(["topic", name]).envs(kafka.environment());
        command.env("KAFKA_CLICKS_TOPIC", self.clicks_topic());
        command.output().unwrap()
    }

    pub(crate) async fn command_api(&self, kafka: &KafkaConfig) -> Service {
        let listen = self.http.api_url.trim_start_matches("http://");
        let arguments = ["serve", "--api-listen", listen];
        let arguments = [&arguments[..], &["--internal-listen", &self.internal]].concat();
        let service = self.service(0, &arguments, kafka);
        eventually("command-api listens", async || {
            tokio::net::TcpStream::connect(listen).await.ok()
        })
        .await;
        service
    }

    pub(crate) fn projector(&self, kafka: &KafkaConfig) -> Service {
        let arguments = ["run", "--internal-listen", &self.projector_internal];
        self.service(1, &arguments, kafka)
    }

    fn service(&self, nth: usize, arguments: &[&str], kafka: &KafkaConfig) -> Service {
        let log = tempfile::Builder::new().tempfile_in(self.folder.path());
        let (file, log) = log.unwrap().keep().unwrap();
        let mut command = Command::new(&self.programs[nth]);
        command
            .args(arguments)
            .env("DATABASE_URL", self.database.url())
            .env("ALLOW_UNSAFE_POSTGRES", "true")
            .envs(kafka.environment())
            .env("KAFKA_CLICKS_TOPIC", self.clicks_topic())
            .env_remove("RUST_LOG")
            .stderr(file);
        let child = command.spawn().unwrap();
        Service { child, log }
    }

    /// Creates a link through the API.
    pub(crate) async fn create(&self) {
        let key = new_uuid(SystemClock.now());
        let body = json!({ "destination_url": "https://example.com/" });
        let created = self.http.create(&key.to_string(), &body).await;
        assert_eq!(created.status, 201, "{created:?}");
        self.created.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until the read tables have all links.
    pub(crate) async fn eventually_read(&self) {
        eventually("the links are in the read tables", async || {
            let links = self.created.load(Ordering::Relaxed);
            let count = "SELECT count(*) FROM read_model.links";
            let count = sqlx::query_scalar::<_, i64>(count);
            let count = count.fetch_one(self.database.pool()).await.unwrap();
            (count == links).then_some(())
        })
        .await;
    }

    /// Creates links until the projector has got a record of the topic: it begins at the end of the topic once it is
    /// connected, and reads what came before from the log.
    pub(crate) async fn eventually_received(&self) {
        eventually("the projector receives records", async || {
            self.create().await;
            let metrics = format!("http://{}/metrics", self.projector_internal);
            let scrape = Scrape::of(&self.http, &metrics).await;
            (scrape.sum("linkledger_records_received_total", &[]) > 0.0).then_some(())
        })
        .await;
    }

    /// Waits until the relay reports a failure, which needs many attempts of librdkafka.
    pub(crate) async fn relay_has_failed(&self) {
        eventually("the relay has failed", async || {
            let metrics = format!("http://{}/metrics", self.internal);
            let scrape = Scrape::of(&self.http, &metrics).await;
            (scrape.sum("linkledger_relay_failures_total", &[]) > 0.0).then_some(())
        })
        .await;
    }
}

/// A process of a service with its log; killed when the value is dropped.
pub(crate) struct Service {
    child: Child,
    log: PathBuf,
}

impl Service {
    /// Returns the errors that the process has logged.
    pub(crate) fn errors(&self) -> Vec<String> {
        let log = fs::read_to_string(&self.log).unwrap();
        // The process may be writing the last line at this moment.
        let lines = log.lines().filter_map(|it| serde_json::from_str(it).ok());
        lines
            .filter(|line: &Value| line["level"] == "WARN" || line["level"] == "ERROR")
            // A line without an error is about a setting, for instance about the test database.
            .filter_map(|line| Some(line["error"].as_str()?.to_owned()))
            // A broker on a busy machine may be slow for some seconds.
            .filter(|error| !error.contains(BROKER_IS_SLOW))
            .collect()
    }

    /// Waits until the process has logged this text.
    pub(crate) async fn eventually_says(&self, text: &str) {
        eventually(text, async || {
            let errors = self.errors();
            errors.iter().any(|it| it.contains(text)).then_some(())
        })
        .await;
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
