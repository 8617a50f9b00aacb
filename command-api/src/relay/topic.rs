//! The topic, as Kafka describes it and as `command-api topic create` makes it.

pub mod judgement;
pub mod tail;

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};
use linkledger_core::{kafka_config::KafkaConfig, kafka_errors::KafkaErrors, shard::SHARD_COUNT};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication},
    client::DefaultClientContext,
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    metadata::{Metadata, MetadataBroker},
    producer::{FutureProducer, Producer as _},
};
use tokio::{runtime::Handle, task::spawn_blocking};

use super::refusal::Refusal;

/// Most bytes of records that the producer puts into one batch (`batch.size`,
/// `message.max.bytes` of librdkafka), before compression.
pub const BATCH_BYTES_MAX: u32 = 1_000_000;
/// What the topic must take: a full batch, and the one record by which librdkafka may exceed it.
pub const MAX_MESSAGE_BYTES_MIN: u32 = 1_048_576;

/// What the user of an operator's command must be allowed.
const RIGHTS: &str = "Describe and DescribeConfigs on the topic, and Create for a new one";
/// How long the cluster may take for each answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Before a partition without a leader is asked again.
const UNLED_DELAY: Duration = Duration::from_millis(200);
/// How long the cluster may take to create a topic on all its brokers.
const CREATE_TIMEOUT: Duration = Duration::from_secs(30);

/// What a cluster says of itself and of the topic.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Differs from that of any other cluster; unknown to very old brokers.
    pub id: Option<String>,
    /// How many brokers there are.
    pub brokers: usize,
    /// The topic, if it exists.
    pub topic: Option<Topic>,
}

/// A topic that exists.
#[derive(Debug, Clone)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// How many replicas each partition has, by partition.
    pub replicas: Vec<usize>,
    /// Its settings, as far as they can be known.
    pub settings: Settings,
    /// By partition; empty unless there is one for each shard.
    pub watermarks: Vec<Watermarks>,
}

/// Where the records of a partition begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// The oldest record that is kept; rises with retention.
    pub low: i64,
    /// The offset that the next record gets.
    pub high: i64,
}

/// The settings of a topic, or why they are not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settings {
    /// By name.
    Known(HashMap<String, String>),
    /// The broker has no such request: the embedded one.
    Unsupported,
    /// The principal may not see them.
    Denied,
}

/// What a new topic gets.
#[derive(Debug, Clone, Copy)]
pub struct NewTopicSettings {
    /// How many brokers keep each record.
    pub replication_factor: i32,
    /// By name.
    pub settings: [(&'static str, i64); 3],
}

impl Topic {
    /// Whether no record was ever written, or all have gone.
    pub fn is_empty(&self) -> bool {
        self.watermarks.iter().all(|it| it.low == it.high)
    }

    /// A setting, if it is known.
    pub fn setting(&self, name: &str) -> Option<&str> {
        match &self.settings {
            Settings::Known(settings) => settings.get(name).map(String::as_str),
            Settings::Unsupported | Settings::Denied => None,
        }
    }

    /// Why events must not be published to it, if they must not.
    pub fn refusal(&self) -> Option<Refusal> {
        let topic = self.name.clone();
        if self.replicas.len() != usize::from(SHARD_COUNT) {
            let partitions = self.replicas.len();
            return Some(Refusal::PartitionCount { topic, partitions });
        }
        if let Some(policy) = self.setting("cleanup.policy")
            && policy.contains("compact")
        {
            let policy = policy.to_owned();
            return Some(Refusal::Compacted { topic, policy });
        }
        let bytes: u64 = self.setting("max.message.bytes")?.parse().ok()?;
        (bytes < u64::from(MAX_MESSAGE_BYTES_MIN))
            .then_some(Refusal::BatchesTooLarge { topic, bytes })
    }
}

/// Asks the cluster for its id and the topic, for an operator.
///
/// # Errors
/// When the settings can't be used, or the cluster does not answer.
pub async fn describe(kafka: &KafkaConfig) -> anyhow::Result<Cluster> {
    describe_for(kafka, KafkaErrors::new(RIGHTS)).await
}

/// The same for whoever listens to that `trouble` meanwhile.
///
/// # Errors
/// As for [`describe`].
pub async fn describe_for(kafka: &KafkaConfig, trouble: KafkaErrors) -> anyhow::Result<Cluster> {
    in_background(kafka, trouble, describe_with).await
}

/// Creates the topic with a partition for each shard.
///
/// # Errors
/// When it exists, or the cluster refuses it or does not answer.
pub async fn create(kafka: &KafkaConfig, new: NewTopicSettings) -> anyhow::Result<()> {
    in_background(kafka, KafkaErrors::new(RIGHTS), move |clients, topic| {
        create_with(&clients.admin, topic, new)
    })
    .await
}

/// Runs the blocking calls of librdkafka, among them the end of the client, away from the tasks.
async fn in_background<T: Send + 'static>(
    kafka: &KafkaConfig,
    trouble: KafkaErrors,
    work: impl FnOnce(&Clients, &str) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let mut config: ClientConfig = kafka.client_settings()?.collect();
    config
        .set("client.id", "linkledger-topic")
        .set("allow.auto.create.topics", "false");
    let (topic, brokers) = (kafka.topic.clone(), kafka.brokers.clone());
    spawn_blocking(move || {
        let made = config.create_with_context(trouble.clone());
        let clients = Clients {
            metadata: made.context("can't make a Kafka client")?,
            admin: config.create().context("can't make a Kafka client")?,
        };
        work(&clients, topic.as_str())
            .map_err(|error| trouble.explain(error))
            .with_context(|| format!("can't use Kafka at {brokers}"))
    })
    .await
    .context("a request to Kafka has panicked")?
}

/// Both kinds of client that it takes to learn all about a topic.
struct Clients {
    /// Asked first: it is polled by a thread of its own, and so says why no broker answers.
    metadata: FutureProducer<KafkaErrors>,
    admin: AdminClient<DefaultClientContext>,
}

fn describe_with(clients: &Clients, name: &str) -> anyhow::Result<Cluster> {
    let inner = clients.metadata.client();
    let metadata = inner.fetch_metadata(Some(name), ANSWER_TIMEOUT)?;
    let mut cluster = Cluster {
        id: inner.fetch_cluster_id(ANSWER_TIMEOUT),
        brokers: metadata.brokers().len(),
        topic: None,
    };
    let Some(replicas) = replicas(&metadata, name)? else {
        return Ok(cluster);
    };
    let mut watermarks = Vec::new();
    if replicas.len() == usize::from(SHARD_COUNT) {
        for partition in 0..i32::from(SHARD_COUNT) {
            let (low, high) = once_led(|| inner.fetch_watermarks(name, partition, ANSWER_TIMEOUT))
                .with_context(|| format!("can't learn how far partition {partition} is"))?;
            watermarks.push(Watermarks { low, high });
        }
    }
    cluster.topic = Some(Topic {
        name: name.to_owned(),
        replicas,
        settings: settings(&clients.admin, name, &metadata)?,
        watermarks,
    });
    Ok(cluster)
}

/// Asks again for a while when a partition changes its leader, or has just been made.
fn once_led<T>(ask: impl Fn() -> KafkaResult<T>) -> KafkaResult<T> {
    let until = Instant::now() + ANSWER_TIMEOUT;
    loop {
        let answer = ask();
        let code = answer
            .as_ref()
            .err()
            .and_then(KafkaError::rdkafka_error_code);
        let is_unled = matches!(
            code,
            Some(RDKafkaErrorCode::NotLeaderForPartition | RDKafkaErrorCode::LeaderNotAvailable)
        );
        if !is_unled || Instant::now() >= until {
            return answer;
        }
        std::thread::sleep(UNLED_DELAY);
    }
}

fn replicas(metadata: &Metadata, name: &str) -> anyhow::Result<Option<Vec<usize>>> {
    let topics = metadata.topics();
    let Some(topic) = topics.iter().find(|topic| topic.name() == name) else {
        return Ok(None);
    };
    match topic.error().map(RDKafkaErrorCode::from) {
        None => {
            let partitions = topic.partitions().iter();
            Ok(Some(partitions.map(|it| it.replicas().len()).collect()))
        }
        Some(RDKafkaErrorCode::UnknownTopicOrPartition) => Ok(None),
        Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
            bail!("the principal may not see the topic {name}: grant it Describe and Write on it")
        }
        Some(error) => bail!("the topic {name} can't be used: {error}"),
    }
}

fn settings(
    client: &AdminClient<DefaultClientContext>,
    name: &str,
    metadata: &Metadata,
) -> anyhow::Result<Settings> {
    // Any broker knows; the embedded one has no controller that could be asked.
    let broker = metadata.brokers().first().map(MetadataBroker::id);
    let options = AdminOptions::new()
        .request_timeout(Some(ANSWER_TIMEOUT))
        .broker_id(broker);
    let resource = ResourceSpecifier::Topic(name);
    let described = Handle::current().block_on(client.describe_configs([&resource], &options));
    let resources = match described {
        Ok(resources) => resources,
        Err(KafkaError::AdminOp(RDKafkaErrorCode::UnsupportedFeature)) => {
            return Ok(Settings::Unsupported);
        }
        Err(error) => bail!("can't read the settings of {name}: {}", reason(&error)),
    };
    let entries = resources.into_iter().flatten().flat_map(|it| it.entries);
    let known: HashMap<String, String> = entries
        .filter_map(|entry| Some((entry.name, entry.value?)))
        .collect();
    // The binding drops the error of the resource; a topic that exists has settings.
    Ok(if known.is_empty() {
        Settings::Denied
    } else {
        Settings::Known(known)
    })
}

fn create_with(
    client: &AdminClient<DefaultClientContext>,
    name: &str,
    new: NewTopicSettings,
) -> anyhow::Result<()> {
    let values = new
        .settings
        .map(|(setting, value)| (setting, value.to_string()));
    let topic = NewTopic::new(
        name,
        i32::from(SHARD_COUNT),
        TopicReplication::Fixed(new.replication_factor),
    )
    .set("cleanup.policy", "delete")
    .set("retention.bytes", "-1")
    .set("message.timestamp.type", "CreateTime");
    let topic = values
        .iter()
        .fold(topic, |topic, (setting, value)| topic.set(setting, value));
    let options = AdminOptions::new()
        .request_timeout(Some(CREATE_TIMEOUT))
        .operation_timeout(Some(CREATE_TIMEOUT));
    let created = Handle::current().block_on(client.create_topics([&topic], &options));
    let created =
        created.map_err(|error| anyhow!("can't create the topic {name}: {}", reason(&error)))?;
    for result in created {
        result.map_err(|(name, error)| refused(&name, error, new.replication_factor))?;
    }
    Ok(())
}

fn refused(name: &str, error: RDKafkaErrorCode, replication_factor: i32) -> anyhow::Error {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "a foreign enum; its text says what it is"
    )]
    match error {
        RDKafkaErrorCode::InvalidReplicationFactor => anyhow!(
            "the cluster has fewer than {replication_factor} brokers; give a lower \
             --replication-factor"
        ),
        RDKafkaErrorCode::TopicAuthorizationFailed
        | RDKafkaErrorCode::ClusterAuthorizationFailed => {
            anyhow!("the principal may not create the topic {name}: grant it Create")
        }
        error => anyhow!("Kafka refuses the topic {name}: {error}"),
    }
}

/// The text without what the binding puts around it.
fn reason(error: &KafkaError) -> String {
    error
        .rdkafka_error_code()
        .map_or_else(|| error.to_string(), |code| code.to_string())
}
