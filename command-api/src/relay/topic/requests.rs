//! Requests to the Kafka cluster: description and creation of a topic.

use std::{collections::HashMap, time::Duration};

use anyhow::{Context as _, anyhow, bail};
use linkledger_service::{
    kafka_close::ClosedInTime, kafka_config::KafkaConfig, kafka_errors::KafkaErrors,
    kafka_leaders::once_led,
};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication},
    client::DefaultClientContext,
    error::{KafkaError, RDKafkaErrorCode},
    metadata::{Metadata, MetadataBroker},
    producer::{FutureProducer, Producer as _},
};
use tokio::{runtime::Handle, task::spawn_blocking};

use super::{
    Cluster, MAX_MESSAGE_BYTES_MIN, PARTITIONS, RelayRefusal, TIMESTAMP_LIMITS,
    TIMESTAMP_UNLIMITED, Topic, TopicSettings, Watermarks, check_settings::WantedSettings,
};

/// Rights that the Kafka user of an operator's command needs.
pub(in crate::relay) const RIGHTS: &str =
    "Describe and DescribeConfigs on the topic, and Create for a new one";
/// Timeout for each answer of the cluster.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the creation of a topic on all brokers.
const CREATE_TIMEOUT: Duration = Duration::from_secs(30);

/// Describes the cluster and a topic, for an operator's command.
///
/// # Errors
/// Returns an error if librdkafka refuses the settings, or the cluster does not answer.
pub async fn describe(kafka: &KafkaConfig) -> anyhow::Result<Cluster> {
    in_background(kafka, KafkaErrors::new(RIGHTS), describe_with).await
}

/// Describes the topic that the relay publishes to, and reports connection failures to `trouble`.
///
/// # Errors
/// Returns the refusal if events must not be published to the topic, or an error of [`describe`].
pub async fn admit(kafka: &KafkaConfig, trouble: KafkaErrors) -> anyhow::Result<Topic> {
    let cluster = in_background(kafka, trouble, describe_with).await?;
    let Some(topic) = cluster.topic else {
        // Operators create topics, the relay never does.
        let topic = &kafka.topic;
        let text = format!(
            "the topic {topic} does not exist; create it: `command-api topic create --kafka-topic {topic}`"
        );
        return Err(RelayRefusal::new("no_topic", text).into());
    };
    match topic.refusal() {
        Some(refusal) => Err(refusal.into()),
        None => Ok(topic),
    }
}

/// Creates a topic of events or of clicks: both have the same number of partitions. Returns false if the topic
/// exists: another program may have created it a moment ago.
///
/// # Errors
/// Returns an error if the cluster refuses the topic or does not answer.
pub async fn create(kafka: &KafkaConfig, wanted: WantedSettings) -> anyhow::Result<bool> {
    in_background(kafka, KafkaErrors::new(RIGHTS), move |clients, topic| {
        create_with(&clients.admin, topic, &wanted)
    })
    .await
}

/// Runs blocking calls of librdkafka on a thread of their own, the close of the clients included.
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
        let clients = ClosedInTime::new(Clients {
            metadata: made.context("cannot make a Kafka client")?,
            admin: config.create().context("cannot make a Kafka client")?,
        });
        work(&clients, topic.as_str())
            .map_err(|error| trouble.explain(error))
            .with_context(|| format!("cannot use Kafka at {brokers}"))
    })
    .await
    .context("a request to Kafka has panicked")?
}

/// Clients for the description of a topic, which needs both kinds.
struct Clients {
    /// Client for metadata, asked first: a thread of its own polls the client, so the client reports
    /// why no broker answers.
    metadata: FutureProducer<KafkaErrors>,
    admin: AdminClient<DefaultClientContext>,
}

fn describe_with(clients: &Clients, name: &str) -> anyhow::Result<Cluster> {
    let inner = clients.metadata.client();
    let metadata = inner.fetch_metadata(Some(name), ANSWER_TIMEOUT)?;
    let brokers = metadata.brokers().len();
    let cluster_id = inner.fetch_cluster_id(ANSWER_TIMEOUT);
    let Some(replicas) = replicas(&metadata, name)? else {
        let topic = None;
        return Ok(Cluster { brokers, topic });
    };
    let mut watermarks = Vec::new();
    if replicas.len() == usize::from(PARTITIONS) {
        for partition in 0..i32::from(PARTITIONS) {
            let (low, high) = once_led(ANSWER_TIMEOUT, || {
                inner.fetch_watermarks(name, partition, ANSWER_TIMEOUT)
            })
            .with_context(|| format!("cannot read the offsets of partition {partition}"))?;
            watermarks.push(Watermarks { low, high });
        }
    }
    let topic = Some(Topic {
        name: name.to_owned(),
        cluster_id,
        replicas,
        settings: settings(&clients.admin, name, &metadata)?,
        watermarks,
    });
    Ok(Cluster { brokers, topic })
}

fn replicas(metadata: &Metadata, name: &str) -> anyhow::Result<Option<Vec<usize>>> {
    let topics = metadata.topics();
    let Some(topic) = topics.iter().find(|topic| topic.name() == name) else {
        return Ok(None);
    };
    match topic.error().map(RDKafkaErrorCode::from) {
        None => {
            let partitions = topic.partitions().iter();
            let replicas = partitions.map(|partition| partition.replicas().len());
            Ok(Some(replicas.collect()))
        }
        Some(RDKafkaErrorCode::UnknownTopicOrPartition) => Ok(None),
        Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
            bail!("the principal may not see the topic {name}: grant it Describe and Write on it")
        }
        Some(error) => bail!("the topic {name} cannot be used: {error}"),
    }
}

fn settings(
    client: &AdminClient<DefaultClientContext>,
    name: &str,
    metadata: &Metadata,
) -> anyhow::Result<TopicSettings> {
    // Any broker can answer; the embedded broker has no controller.
    let broker = metadata.brokers().first().map(MetadataBroker::id);
    let options = AdminOptions::new()
        .request_timeout(Some(ANSWER_TIMEOUT))
        .broker_id(broker);
    let resource = ResourceSpecifier::Topic(name);
    let described = Handle::current().block_on(client.describe_configs([&resource], &options));
    let resources = match described {
        Ok(resources) => resources,
        Err(KafkaError::AdminOp(RDKafkaErrorCode::UnsupportedFeature)) => {
            return Ok(TopicSettings::Unsupported);
        }
        Err(error) => bail!("cannot read the settings of {name}: {}", reason(&error)),
    };
    let entries = resources
        .into_iter()
        .flatten()
        .flat_map(|resource| resource.entries);
    let known: HashMap<String, String> = entries
        .filter_map(|entry| Some((entry.name, entry.value?)))
        .collect();
    // rdkafka drops the error of a resource; every existing topic has settings.
    Ok(if known.is_empty() {
        TopicSettings::Denied
    } else {
        TopicSettings::Known(known)
    })
}

fn create_with(
    client: &AdminClient<DefaultClientContext>,
    name: &str,
    wanted: &WantedSettings,
) -> anyhow::Result<bool> {
    let retention_ms = wanted.retention_ms().to_string();
    let min_insync_replicas = wanted.min_insync_replicas.to_string();
    let max_message_bytes = MAX_MESSAGE_BYTES_MIN.to_string();
    let topic = |timestamp_limits: &'static [&'static str]| {
        let replication = TopicReplication::Fixed(wanted.replication_factor);
        let topic = NewTopic::new(name, i32::from(PARTITIONS), replication)
            .set("cleanup.policy", "delete")
            .set("retention.bytes", "-1")
            .set("retention.ms", &retention_ms)
            .set("min.insync.replicas", &min_insync_replicas)
            .set("max.message.bytes", &max_message_bytes)
            .set("message.timestamp.type", "CreateTime");
        timestamp_limits
            .iter()
            .fold(topic, |topic, limit| topic.set(limit, TIMESTAMP_UNLIMITED))
    };
    let options = AdminOptions::new()
        .request_timeout(Some(CREATE_TIMEOUT))
        .operation_timeout(Some(CREATE_TIMEOUT));
    let request = |topic: &NewTopic<'_>| {
        let created = Handle::current().block_on(client.create_topics([topic], &options));
        let created = created
            .map_err(|error| anyhow!("cannot create the topic {name}: {}", reason(&error)))?;
        anyhow::Ok(created.into_iter().find_map(Result::err))
    };
    let mut failure = request(&topic(&TIMESTAMP_LIMITS))?;
    // Brokers before Kafka 3.6 know neither setting, and have no limit by default.
    if matches!(failure, Some((_, RDKafkaErrorCode::InvalidConfig))) {
        failure = request(&topic(&[]))?;
    }
    match failure {
        None => Ok(true),
        Some((_, RDKafkaErrorCode::TopicAlreadyExists)) => Ok(false),
        Some((name, error)) => Err(refused(&name, error, wanted.replication_factor)),
    }
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

/// Returns the text of the error without the prefix of rdkafka.
fn reason(error: &KafkaError) -> String {
    error
        .rdkafka_error_code()
        .map_or_else(|| error.to_string(), |code| code.to_string())
}
