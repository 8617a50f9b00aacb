//! The consumer of the topic: receives the records of the shards that this process has claimed, from now on.
//!
//! No consumer group and no stored offset: what the topic does not deliver to this process is read from the log, so it
//! does not matter where reading begins.

mod key;
mod record;
mod unreadable_records;

use std::{collections::BTreeSet, future::Future, mem};

use anyhow::Context as _;
use futures::{FutureExt as _, StreamExt as _};
use linkledger_core::{
    cloud_event::PublishedEvent,
    event_store::log::PerShard,
    kafka_close::ClosedInTime,
    kafka_config::TopicName,
    kafka_errors::{KafkaErrors, KafkaWarnings, STATISTICS_INTERVAL},
    shard::Shard,
};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    consumer::{Consumer as _, StreamConsumer},
    error::KafkaError,
};
use sqlx::PgPool;
use tokio::task::spawn_blocking;

use self::{key::KnownKey, unreadable_records::UnreadableRecords};
use crate::config::Config;

/// Group that nobody joins: librdkafka assigns partitions only to a client that could join one, and looks for its
/// coordinator.
pub(crate) const GROUP_ID: &str = "linkledger-projector";

/// Rights that the Kafka user of the projector needs.
const RIGHTS: &str = "Read and Describe on the topic, and Read on the group";

/// Consumer of the topic of events.
pub struct Consumer {
    inner: ClosedInTime<StreamConsumer<KafkaErrors>>,
    settings: Config,
    topic: TopicName,
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
            inner: client(settings)?,
            settings: settings.clone(),
            topic: settings.kafka.topic.clone(),
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
            let (topic, partition) = (self.topic.as_str(), shard.number().into());
            partitions.add_partition_offset(topic, partition, next)?;
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
        let mut events = Vec::new();
        let errors = &self.inner.context();
        let mut stream = self.inner.stream();
        let mut next = tokio::select! {
            biased;
            first = stream.next() => first,
            () = deadline => None,
        };
        let key = match next {
            Some(_) => self.key.get().await,
            None => None,
        };
        let mut records = 0;
        while let Some(result) = next {
            match result {
                Ok(message) => {
                    if let Some(shard) = Shard::new(message.partition().into())
                        && let Some(key) = &key
                    {
                        self.next_offsets[shard.index()] = Some(message.offset() + 1);
                        match record::event_of(shard, &message, key) {
                            Ok(event) => events.push(event),
                            Err(error) => self.unreadable.add(|| {
                                let (partition, offset) = (message.partition(), message.offset());
                                format!("{error} (partition {partition}, offset {offset})")
                            }),
                        }
                    }
                }
                Err(error @ KafkaError::MessageConsumptionFatal(_)) => {
                    return Err(error).context("cannot consume");
                }
                Err(error) => errors.record(&error, ""),
            }
            records += 1;
            next = if records < records_max {
                stream.next().now_or_never().flatten()
            } else {
                None
            };
        }
        drop(stream);
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
        let making = spawn_blocking(move || client(&settings)).await;
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
        let inner = self.inner;
        if spawn_blocking(move || drop(inner)).await.is_err() {
            tracing::warn!("closing the Kafka client panicked");
        }
    }
}

/// Returns a client that connects in the background.
fn client(settings: &Config) -> anyhow::Result<ClosedInTime<StreamConsumer<KafkaErrors>>> {
    let mut config: ClientConfig = settings.kafka.client_settings()?.collect();
    config
        .set("group.id", GROUP_ID)
        // Also where retention has removed the next record.
        .set("auto.offset.reset", "latest")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        // Somebody else's open transaction must not hide records.
        .set("isolation.level", "read_uncommitted")
        .set("fetch.wait.max.ms", settings.fetch_wait_max_ms.to_string())
        // The records of the next cycle arrive while this one commits, in few fetches.
        .set("queued.min.messages", "500")
        .set("fetch.queue.backoff.ms", "2")
        .set(STATISTICS_INTERVAL.0, STATISTICS_INTERVAL.1);
    config
        .create_with_context(KafkaErrors::new(RIGHTS))
        .map(ClosedInTime::new)
        .context("cannot create the Kafka consumer")
}

#[cfg(test)]
mod tests;
