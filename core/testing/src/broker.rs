//! A broker for a test: one inside the process, or the Apache Kafka that the tests of a binary
//! share, each with a topic of its own.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    mocking::MockCluster,
    producer::DefaultProducerContext,
};
use tokio::sync::OnceCell;

use linkledger_core::{
    kafka_config::{KafkaConfig, TopicName},
    shard::SHARD_COUNT,
};
use linkledger_servers::apache_kafka::{ApacheKafka, ApacheKafkaOptions};

/// The variable that chooses between [`EMBEDDED`], the default, and [`APACHE`].
const VARIABLE: &str = "LINKLEDGER_TEST_KAFKA";
const EMBEDDED: &str = "embedded";
const APACHE: &str = "apache";

static SHARED: OnceCell<ApacheKafka> = OnceCell::const_new();
static TOPICS: AtomicU32 = AtomicU32::new(0);

type EmbeddedCluster = MockCluster<'static, DefaultProducerContext>;

/// A broker with a topic of the event stream that no other test uses.
pub struct TestBroker {
    kind: Kind,
    topic: TopicName,
}

enum Kind {
    Embedded(EmbeddedCluster),
    Apache(&'static ApacheKafka),
}

impl TestBroker {
    /// A broker of the kind that `LINKLEDGER_TEST_KAFKA` names: `embedded`, or `apache`.
    pub async fn start() -> Self {
        if Self::is_apache() {
            Self::apache().await
        } else {
            Self::embedded()
        }
    }

    /// Whether the tests are told to use an Apache Kafka. What only that one does is tested only
    /// then, so that the other tests ask for no Java.
    pub fn is_apache() -> bool {
        match std::env::var(VARIABLE).as_deref() {
            Ok(APACHE) => true,
            Ok(EMBEDDED) | Err(_) => false,
            Ok(other) => panic!("{VARIABLE} is {EMBEDDED} or {APACHE}, not {other}"),
        }
    }

    /// A broker inside the process, to which faults can be done.
    pub fn embedded() -> Self {
        let cluster = MockCluster::new(1).expect("a broker starts");
        let topic = TopicName::default();
        cluster
            .create_topic(topic.as_str(), i32::from(SHARD_COUNT), 1)
            .expect("a topic is created");
        Self {
            kind: Kind::Embedded(cluster),
            topic,
        }
    }

    /// The Apache Kafka of this test binary, which needs Java and Maven.
    pub async fn apache() -> Self {
        let kafka = SHARED.get_or_init(start_shared).await;
        let name = format!("test-{}", TOPICS.fetch_add(1, Ordering::Relaxed));
        let broker = Self {
            kind: Kind::Apache(kafka),
            topic: name.parse().expect("a valid name"),
        };
        broker.create_topic().await;
        broker
    }

    /// Where clients reach it.
    pub fn bootstrap_servers(&self) -> String {
        match &self.kind {
            Kind::Embedded(cluster) => cluster.bootstrap_servers(),
            Kind::Apache(kafka) => kafka.bootstrap_servers(),
        }
    }

    /// The topic of this test.
    pub fn topic(&self) -> &str {
        self.topic.as_str()
    }

    /// A consumer group of that name that no other test uses.
    pub fn group_id(&self, name: &str) -> String {
        format!("{}-{name}", self.topic)
    }

    /// How the services reach it.
    pub fn config(&self) -> KafkaConfig {
        KafkaConfig {
            topic: self.topic.clone(),
            ..KafkaConfig::plaintext(self.bootstrap_servers())
        }
    }

    /// How long it may take until another member of a group has the partitions of one that stands
    /// still: six seconds until it is expelled, and a rebalance, for which the embedded broker
    /// waits five seconds more; twice that for a machine that does other things.
    pub fn takes_over_within(&self) -> Duration {
        Duration::from_secs(match self.kind {
            Kind::Embedded(_) => 30,
            Kind::Apache(_) => 20,
        })
    }

    /// The settings of a client of it.
    pub fn client(&self) -> ClientConfig {
        let settings = self.config().client_settings();
        settings.expect("they hold no contradiction").collect()
    }

    /// The embedded broker itself, for faults.
    ///
    /// # Panics
    /// When the broker is shared: such a test asks for [`TestBroker::embedded`].
    pub fn cluster(&self) -> &EmbeddedCluster {
        match &self.kind {
            Kind::Embedded(cluster) => cluster,
            Kind::Apache(_) => panic!("only the embedded broker takes faults"),
        }
    }

    async fn create_topic(&self) {
        let admin: AdminClient<DefaultClientContext> =
            self.client().create().expect("a client is made");
        let partitions = i32::from(SHARD_COUNT);
        let topic = NewTopic::new(self.topic(), partitions, TopicReplication::Fixed(1));
        let created = admin.create_topics(&[topic], &AdminOptions::new()).await;
        let created = created.expect("the broker answers");
        assert!(created.iter().all(Result::is_ok), "{created:?}");
    }
}

async fn start_shared() -> ApacheKafka {
    let started = ApacheKafka::start(ApacheKafkaOptions::default()).await;
    started.unwrap_or_else(|error| panic!("{error:#}"))
}
