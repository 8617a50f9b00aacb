//! A broker for a test: an embedded broker inside the process, or the Apache Kafka that the tests of
//! a binary share, with separate topics for each test.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    mocking::MockCluster,
    producer::{DefaultProducerContext, FutureProducer, FutureRecord},
    topic_partition_list::TopicPartitionListElem,
};
use tokio::sync::OnceCell;

use linkledger_clicks::CLICK_PARTITIONS;
use linkledger_core::shard::SHARD_COUNT;
use linkledger_servers::apache_kafka::{ApacheKafka, ApacheKafkaOptions};
use linkledger_service::kafka_config::{ClicksConfig, KafkaConfig, OnOff, TopicName};

/// Environment variable that chooses between [`EMBEDDED`], the default, and [`APACHE`].
const VARIABLE: &str = "LINKLEDGER_TEST_KAFKA";
const EMBEDDED: &str = "embedded";
const APACHE: &str = "apache";

static SHARED: OnceCell<ApacheKafka> = OnceCell::const_new();
static TOPICS: AtomicU32 = AtomicU32::new(0);

type EmbeddedCluster = MockCluster<'static, DefaultProducerContext>;

/// A broker with topics of events and of clicks that no other test uses.
pub struct TestBroker {
    kind: BrokerKind,
    topic: TopicName,
    clicks_topic: TopicName,
}

enum BrokerKind {
    Embedded(EmbeddedCluster),
    Apache(&'static ApacheKafka),
}

impl TestBroker {
    /// Starts a broker of the kind in `LINKLEDGER_TEST_KAFKA`: `embedded` or `apache`.
    pub async fn start() -> Self {
        if Self::is_apache() {
            Self::apache().await
        } else {
            Self::embedded()
        }
    }

    /// Returns true if the tests use an Apache Kafka. Tests of features that only Apache Kafka has
    /// return at once otherwise, so that the other tests need no Java.
    pub fn is_apache() -> bool {
        match std::env::var(VARIABLE).as_deref() {
            Ok(APACHE) => true,
            Ok(EMBEDDED) | Err(_) => false,
            Ok(other) => panic!("{VARIABLE} must be {EMBEDDED} or {APACHE}, not {other}"),
        }
    }

    /// Starts a broker inside the process, which can inject faults.
    pub fn embedded() -> Self {
        let cluster = MockCluster::new(1).expect("a broker starts");
        let (topic, clicks_topic) = (TopicName::default(), TopicName::of_clicks());
        for (topic, partitions) in [(&topic, SHARD_COUNT), (&clicks_topic, CLICK_PARTITIONS)] {
            cluster
                .create_topic(topic.as_str(), i32::from(partitions), 1)
                .expect("a topic is created");
        }
        Self {
            kind: BrokerKind::Embedded(cluster),
            topic,
            clicks_topic,
        }
    }

    /// Returns the Apache Kafka of this test binary, which needs Java and Maven, with new topics.
    pub async fn apache() -> Self {
        let kafka = SHARED.get_or_init(start_shared).await;
        let name = format!("test-{}", TOPICS.fetch_add(1, Ordering::Relaxed));
        let broker = Self {
            kind: BrokerKind::Apache(kafka),
            topic: name.parse().expect("a valid name"),
            clicks_topic: format!("{name}-clicks").parse().expect("a valid name"),
        };
        broker.create_topics().await;
        broker
    }

    /// Returns the address for clients.
    pub fn bootstrap_servers(&self) -> String {
        match &self.kind {
            BrokerKind::Embedded(cluster) => cluster.bootstrap_servers(),
            BrokerKind::Apache(kafka) => kafka.bootstrap_servers(),
        }
    }

    /// Returns the topic of this test.
    pub fn topic(&self) -> &str {
        self.topic.as_str()
    }

    /// Returns the settings of a service for this broker and topic.
    pub fn config(&self) -> KafkaConfig {
        KafkaConfig {
            topic: self.topic.clone(),
            ..KafkaConfig::plaintext(self.bootstrap_servers())
        }
    }

    /// Returns the settings of a service for this test's topic of clicks.
    pub fn clicks(&self) -> ClicksConfig {
        ClicksConfig {
            clicks_topic: self.clicks_topic.clone(),
            clicks: OnOff::On,
        }
    }

    /// Returns the settings of a client of this broker.
    pub fn client(&self) -> ClientConfig {
        let settings = self.config().client_settings();
        settings
            .expect("the settings of a test are valid")
            .collect()
    }

    /// Returns the embedded broker, for the injection of faults.
    ///
    /// # Panics
    /// Panics if the broker is the shared Apache Kafka: use [`TestBroker::embedded`].
    pub fn cluster(&self) -> &EmbeddedCluster {
        match &self.kind {
            BrokerKind::Embedded(cluster) => cluster,
            BrokerKind::Apache(_) => panic!("only the embedded broker can inject faults"),
        }
    }

    /// Removes the first record of a partition of the clicks, as retention does.
    pub async fn expire_first_click(&self, partition: u8) {
        let topic = self.clicks_topic.as_str();
        match &self.kind {
            // The embedded broker keeps 5 MiB of a partition.
            BrokerKind::Embedded(_) => {
                let producer: FutureProducer = self.client().create().expect("a client is made");
                let long = vec![b' '; 900_000];
                for _ in 0..8 {
                    let record = FutureRecord::<(), _>::to(topic)
                        .partition(partition.into())
                        .payload(&long);
                    let sent = producer.send(record, Duration::from_mins(2)).await;
                    sent.expect("the record is acknowledged");
                }
            }
            BrokerKind::Apache(_) => {
                let mut first = TopicPartitionList::new();
                let added = first.add_partition_offset(topic, partition.into(), Offset::Offset(1));
                added.expect("a valid offset");
                // The client polls for the answer: dropped before, it would never come.
                let admin = self.admin();
                let deleted = admin.delete_records(&first, &AdminOptions::new()).await;
                let deleted = deleted.expect("the broker answers");
                let errors = deleted
                    .elements()
                    .iter()
                    .map(TopicPartitionListElem::error)
                    .collect::<Vec<_>>();
                assert!(errors.iter().all(Result::is_ok), "{errors:?}");
            }
        }
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client().create().expect("a client is made")
    }

    async fn create_topics(&self) {
        let admin = self.admin();
        let topics = [
            (&self.topic, SHARD_COUNT),
            (&self.clicks_topic, CLICK_PARTITIONS),
        ];
        let new = topics.map(|(topic, partitions)| {
            let replication = TopicReplication::Fixed(1);
            // As `command-api topic create` does.
            NewTopic::new(topic.as_str(), i32::from(partitions), replication)
                .set("message.timestamp.after.max.ms", "9223372036854775807")
        });
        let created = admin.create_topics(&new, &AdminOptions::new()).await;
        let created = created.expect("the broker answers");
        assert!(created.iter().all(Result::is_ok), "{created:?}");
        for (topic, partitions) in topics {
            let partitions = usize::from(partitions);
            until_known(&admin, topic.as_str(), partitions).await;
        }
    }
}

/// Waits until the broker knows a new topic with a leader of each partition: the controller answers earlier.
pub async fn until_known(
    admin: &AdminClient<DefaultClientContext>,
    topic: &str,
    partitions: usize,
) {
    crate::eventually("the broker knows the new topic", async || {
        let client = admin.inner();
        let metadata = client.fetch_metadata(Some(topic), Duration::from_secs(5));
        let metadata = metadata.ok()?;
        let found = metadata.topics().first()?.partitions();
        let are_led = found.len() == partitions && found.iter().all(|it| it.leader() >= 0);
        are_led.then_some(())
    })
    .await;
}

async fn start_shared() -> ApacheKafka {
    let started = ApacheKafka::start(ApacheKafkaOptions::default()).await;
    started.unwrap_or_else(|error| panic!("{error:#}"))
}
