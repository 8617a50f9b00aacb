//! The consumer of the topic: receives the records of the shards that this process has claimed, from now on.
//!
//! No consumer group and no stored offset: what the topic does not deliver to this process is read from the log, so it
//! does not matter where reading begins.

use std::{collections::BTreeSet, future::Future, mem, time::Duration};

use anyhow::{Context as _, ensure};
use futures::{FutureExt as _, StreamExt as _};
use linkledger_core::{
    cloud_event::{Headers, PublishedEvent, RECORD_BYTES_MAX, RecordKey},
    shard::Shard,
};
use linkledger_event_store::{log::PerShard, log_meta, time_limit::within};
use linkledger_service::{
    kafka_close::ClosedInTime,
    kafka_config::KafkaConfig,
    kafka_errors::{KafkaErrors, KafkaWarnings, STATISTICS_INTERVAL},
    metrics::RECORDS_UNREADABLE_TOTAL,
};
use metrics::counter;
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{Consumer as _, StreamConsumer},
    error::KafkaError,
    message::{BorrowedMessage, Headers as _},
};
use sqlx::PgPool;
use tokio::{task::spawn_blocking, time::Instant};

use crate::config::Config;

/// Group that nobody joins: librdkafka assigns partitions only to a client that could join one, and looks for its
/// coordinator.
const GROUP_ID: &str = "linkledger-projector";

/// Timeout for reading the key of the records. Meanwhile records wait.
const KEY_TIME_MAX: Duration = Duration::from_secs(5);

/// Shortest time between two lines of the log: a flooded topic must not flood the log.
const UNREADABLE_INTERVAL: Duration = Duration::from_mins(1);

/// Rights that the Kafka user of the projector needs.
const RIGHTS: &str = "Read and Describe on the topic, and Read on the group";

const NOT_TEXT: &str = "the record's value is not text";

/// Client of a topic.
pub(crate) type KafkaClient = ClosedInTime<StreamConsumer<KafkaErrors>>;

/// Consumer of the topic of events.
pub struct Consumer {
    inner: KafkaClient,
    settings: Config,
    shards: BTreeSet<Shard>,
    /// Offset of the next record of each partition, once a record was received.
    next_offsets: PerShard<Option<i64>>,
    key: KnownKey,
    unreadable: UnreadableRecords,
    warnings: KafkaWarnings,
}

impl Consumer {
    /// Returns a consumer without shards. It connects in the background, so that the brokers may be down at the
    /// start. The database of the log has the key of the records.
    ///
    /// # Errors
    /// Returns an error if the Kafka client refuses the settings.
    pub fn new(settings: &Config, log: PgPool) -> anyhow::Result<Self> {
        Ok(Self {
            inner: client_of(settings)?,
            settings: settings.clone(),
            shards: BTreeSet::new(),
            next_offsets: PerShard::default(),
            key: KnownKey::new(log),
            unreadable: UnreadableRecords::default(),
            warnings: KafkaWarnings::default(),
        })
    }

    /// Receives the records of these shards from now on, and no others.
    ///
    /// # Errors
    /// Returns an error if the Kafka client has failed for good.
    pub fn set_shards(&mut self, shards: &BTreeSet<Shard>) -> anyhow::Result<()> {
        if *shards == self.shards {
            return Ok(());
        }
        for shard in self.shards.difference(shards) {
            self.next_offsets[shard.index()] = None;
        }
        self.shards.clone_from(shards);
        self.assign(&self.inner)
    }

    /// Gives a client the partitions of the shards: from the next record, or from the end of the topic.
    fn assign(&self, client: &StreamConsumer<KafkaErrors>) -> anyhow::Result<()> {
        let mut partitions = TopicPartitionList::new();
        for shard in &self.shards {
            let next = self.next_offsets[shard.index()].map_or(Offset::End, Offset::Offset);
            let topic = self.settings.kafka.topic.as_str();
            partitions.add_partition_offset(topic, shard.number().into(), next)?;
        }
        client
            .assign(&partitions)
            .context("cannot assign the partitions of the topic")
    }

    /// Receives up to `records_max` records. Waits for the first record until `deadline` completes.
    ///
    /// # Errors
    /// Returns an error if the Kafka client has failed for good.
    pub async fn receive(
        &mut self,
        records_max: usize,
        deadline: impl Future<Output = ()>,
    ) -> anyhow::Result<Vec<PublishedEvent>> {
        if let Some(lost) = self.inner.context().take_lost_brokers() {
            tracing::warn!("{lost}");
            self.replace_client().await;
        }
        if records_max == 0 {
            deadline.await;
            return Ok(Vec::new());
        }
        let messages = receive(&self.inner, records_max, deadline).await?;
        let key = if messages.is_empty() {
            None
        } else {
            self.key.get().await
        };
        let mut events = Vec::new();
        for message in &messages {
            if let Some(shard) = Shard::new(message.partition().into())
                && let Some(key) = &key
            {
                self.next_offsets[shard.index()] = Some(message.offset() + 1);
                match event_of(shard, message, key) {
                    Ok(event) => events.push(event),
                    Err(error) => self.unreadable.add(|| {
                        let (partition, offset) = (message.partition(), message.offset());
                        format!("{error} (partition {partition}, offset {offset})")
                    }),
                }
            }
        }
        if self.unreadable.log_if_due() {
            // The log may have another key now.
            self.key.forget();
        }
        if !events.is_empty() {
            self.inner.context().clear();
        } else if let Some(error) = self.warnings.due(self.inner.context()) {
            // The client reconnects by itself, and the followers go on without the topic.
            tracing::warn!(error, "trouble with Kafka");
        }
        Ok(events)
    }

    /// Replaces the client. If the new one cannot be made, the former one stays until two more of its statistics name
    /// no broker.
    async fn replace_client(&mut self) {
        let settings = self.settings.clone();
        let making = spawn_blocking(move || client_of(&settings)).await;
        let making = making.context("making a Kafka client panicked").flatten();
        let assigned = making.and_then(|client| self.assign(&client).map(|()| client));
        match assigned {
            Ok(client) => {
                let former = mem::replace(&mut self.inner, client);
                drop(spawn_blocking(move || drop(former)));
            }
            Err(error) => tracing::warn!(
                error = format!("{error:#}"),
                "cannot replace the Kafka client; retrying within 20 s"
            ),
        }
    }

    /// Closes the client.
    pub async fn close(self) {
        close(self.inner).await;
    }
}

/// Key of the records, which the database of the log has, once it was read.
struct KnownKey {
    log: PgPool,
    key: Option<RecordKey>,
}

impl KnownKey {
    fn new(log: PgPool) -> Self {
        Self { log, key: None }
    }

    /// Returns the key; `None` if the database fails: then records are as if they were missing.
    async fn get(&mut self) -> Option<RecordKey> {
        if self.key.is_none() {
            match within(KEY_TIME_MAX, log_meta::record_key(&self.log)).await {
                Ok(key) => self.key = Some(key),
                Err(error) => tracing::warn!(
                    %error,
                    "cannot read the key of the records: the log is read instead"
                ),
            }
        }
        self.key.clone()
    }

    /// Reads the key again before the next record.
    fn forget(&mut self) {
        self.key = None;
    }
}

/// Records that are treated as absent: events that the topic lacks are read from the event store.
#[derive(Debug, Default)]
struct UnreadableRecords {
    /// Number of records since the last line of the log, and the first of them.
    count: u64,
    first: Option<String>,
    logged_at: Option<Instant>,
}

impl UnreadableRecords {
    /// Counts a record.
    fn add(&mut self, describe: impl FnOnce() -> String) {
        counter!(RECORDS_UNREADABLE_TOTAL).increment(1);
        self.count += 1;
        self.first.get_or_insert_with(describe);
    }

    /// Logs one line for all records since the last line, if it is due. Returns true if it did.
    fn log_if_due(&mut self) -> bool {
        let is_recent = |at: Instant| at.elapsed() < UNREADABLE_INTERVAL;
        if self.logged_at.is_some_and(is_recent) {
            return false;
        }
        let first = self.first.take();
        if let Some(first) = &first {
            self.logged_at = Some(Instant::now());
            tracing::warn!(
                count = mem::take(&mut self.count),
                first,
                "the topic has records that are not events of the log: somebody else writes to it, or changes \
                 records; they are dropped, and the log is read instead"
            );
        }
        first.is_some()
    }
}

/// Returns the event of a record in the partition of `shard`, if a relay of the log with this key has published it.
///
/// # Errors
/// Returns an error if the record carries no event of the log.
fn event_of(
    shard: Shard,
    message: &BorrowedMessage<'_>,
    key: &RecordKey,
) -> anyhow::Result<PublishedEvent> {
    let payload = message.payload().context(NOT_TEXT)?;
    ensure!(
        payload.len() <= RECORD_BYTES_MAX as usize,
        "the record's value is longer than any event"
    );
    let payload = std::str::from_utf8(payload).context(NOT_TEXT)?;
    let headers: Headers<'_> = message
        .headers()
        .into_iter()
        .flat_map(|headers| headers.iter())
        .filter_map(|header| Some((header.key, std::str::from_utf8(header.value?).ok()?)))
        .collect();
    ensure!(
        key.verifies(shard, &headers, payload),
        "no relay of this log has published the record"
    );
    let payload = payload.to_owned();
    Ok(PublishedEvent::from_record(shard, &headers, payload)?)
}

fn client_of(settings: &Config) -> anyhow::Result<KafkaClient> {
    let kafka_fetch_wait_max_ms = settings.kafka_fetch_wait_max_ms.to_string();
    client(
        &settings.kafka,
        RIGHTS,
        &[
            // Also where retention has removed the next record.
            ("auto.offset.reset", "latest"),
            // Somebody else's open transaction must not hide records.
            ("isolation.level", "read_uncommitted"),
            ("fetch.wait.max.ms", kafka_fetch_wait_max_ms.as_str()),
            // The records of the next cycle arrive while this one commits, in few fetches.
            ("queued.min.messages", "500"),
            ("fetch.queue.backoff.ms", "2"),
        ],
    )
}

/// Returns a client of a topic that connects in the background and stores no offset, with more settings. Its user needs
/// these rights.
pub(crate) fn client(
    kafka: &KafkaConfig,
    rights: &'static str,
    settings: &[(&str, &str)],
) -> anyhow::Result<KafkaClient> {
    let mut config: ClientConfig = kafka.client_settings()?.collect();
    config
        .set("group.id", GROUP_ID)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set(STATISTICS_INTERVAL.0, STATISTICS_INTERVAL.1);
    for (name, value) in settings {
        config.set(*name, *value);
    }
    config
        .create_with_context(KafkaErrors::new(rights))
        .map(ClosedInTime::new)
        .context("cannot create the Kafka consumer")
}

/// Receives up to `records_max` messages. Waits for the first message until `deadline` completes.
///
/// # Errors
/// Returns an error if the Kafka client has failed for good.
pub(crate) async fn receive(
    client: &StreamConsumer<KafkaErrors>,
    records_max: usize,
    deadline: impl Future<Output = ()>,
) -> anyhow::Result<Vec<BorrowedMessage<'_>>> {
    let mut messages = Vec::new();
    let mut stream = client.stream();
    let mut next = tokio::select! {
        biased;
        first = stream.next() => first,
        () = deadline => None,
    };
    let mut received = 0;
    while let Some(result) = next {
        match result {
            Ok(message) => messages.push(message),
            Err(error @ KafkaError::MessageConsumptionFatal(_)) => {
                return Err(error).context("cannot consume");
            }
            Err(error) => client.context().record(&error, ""),
        }
        received += 1;
        next = if received < records_max {
            stream.next().now_or_never().flatten()
        } else {
            None
        };
    }
    Ok(messages)
}

/// Closes a client, or gives up a share of it: the last one closes it.
pub(crate) async fn close(client: impl Send + 'static) {
    if spawn_blocking(move || drop(client)).await.is_err() {
        tracing::warn!("closing a Kafka client panicked");
    }
}

#[cfg(test)]
mod tests;
