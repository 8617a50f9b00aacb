//! Commands `topic create` and `topic check`: creation and check of the topics of events and of clicks.

mod checked;

use std::time::Duration;

use anyhow::{bail, ensure};
use clap::{Args, Subcommand};
use linkledger_service::kafka_config::{ClicksConfig, KafkaConfig};

use super::print;
use crate::relay::topic::{self, Cluster, Stream, check_settings::WantedSettings};

pub use self::checked::{CheckedTopic, CheckedTopics};

/// Default replication factor, if the cluster has as many brokers.
const REPLICATION_FACTOR: i32 = 3;
/// Default retention of both topics, in days.
pub const RETENTION_DAYS: u16 = 30;
/// Interval between two lookups of a topic that was just created.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Highest number of lookups.
const LOOKS_MAX: u32 = 50;

/// Subcommand of `topic`.
#[derive(Debug, Subcommand)]
pub enum TopicSubcommand {
    /// Create the topics of events and of clicks: 16 partitions each, never compacted. Safe to
    /// repeat: an existing topic is checked and not changed.
    Create(Box<WantedTopics>),
    /// Show the actual and the wanted value of each relevant setting of both topics. Exits with 1 if
    /// a value is wrong.
    Check(Box<WantedTopics>),
}

/// Arguments of `topic create` and `topic check`.
#[derive(Debug, Clone, Args)]
pub struct WantedTopics {
    #[command(flatten)]
    pub kafka: KafkaConfig,
    #[command(flatten)]
    pub clicks: ClicksConfig,
    /// Minimum retention of events in days, counted from the time of an event; 0 for unlimited.
    #[arg(long, default_value_t = RETENTION_DAYS)]
    pub retention_days: u16,
    /// Minimum retention of clicks in days; 0 for unlimited.
    #[arg(long, default_value_t = RETENTION_DAYS)]
    pub clicks_retention_days: u16,
    /// Brokers that keep each record [default: 3, or as many as there are].
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    pub replication_factor: Option<i32>,
    /// Brokers that must have a record before the record counts as published [default: one fewer
    /// than --replication-factor, at least 1].
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    pub min_insync_replicas: Option<i32>,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
}

pub(super) async fn run(command: TopicSubcommand) -> anyhow::Result<()> {
    let (json, checked) = match command {
        TopicSubcommand::Create(wanted) => (wanted.json, create(&wanted).await?),
        TopicSubcommand::Check(wanted) => (wanted.json, check(&wanted).await?),
    };
    print(json, &checked, &checked.text())?;
    checked.ensure_right()
}

/// Creates the topics that do not exist, and checks all.
///
/// # Errors
/// Returns an error if the cluster refuses a topic or does not answer.
pub async fn create(wanted: &WantedTopics) -> anyhow::Result<CheckedTopics> {
    wanted.ensure_distinct()?;
    let events = wanted.create(Stream::Events, &wanted.kafka).await?;
    let clicks = match wanted.clicks.kafka(&wanted.kafka) {
        Some(kafka) => Some(wanted.create(Stream::Clicks, &kafka).await?),
        None => None,
    };
    Ok(CheckedTopics { events, clicks })
}

/// Compares the topics with the wanted settings.
///
/// # Errors
/// Returns an error if a topic does not exist, or the cluster does not answer.
pub async fn check(wanted: &WantedTopics) -> anyhow::Result<CheckedTopics> {
    wanted.ensure_distinct()?;
    Ok(CheckedTopics {
        events: check_events(wanted).await?,
        clicks: check_clicks(wanted).await?,
    })
}

/// Compares the topic of events with the wanted settings.
///
/// # Errors
/// Returns an error if the topic does not exist, or the cluster does not answer.
pub async fn check_events(wanted: &WantedTopics) -> anyhow::Result<CheckedTopic> {
    wanted.check(Stream::Events, &wanted.kafka).await
}

/// Compares the topic of clicks with the wanted settings; returns `None` if clicks are switched off.
///
/// # Errors
/// Returns an error if the topic does not exist, or the cluster does not answer.
pub async fn check_clicks(wanted: &WantedTopics) -> anyhow::Result<Option<CheckedTopic>> {
    match wanted.clicks.kafka(&wanted.kafka) {
        Some(kafka) => wanted.check(Stream::Clicks, &kafka).await.map(Some),
        None => Ok(None),
    }
}

impl WantedTopics {
    fn ensure_distinct(&self) -> anyhow::Result<()> {
        ensure!(
            !self.clicks.are_on() || self.clicks.clicks_topic != self.kafka.topic,
            "events and clicks need topics of their own; --kafka-topic and --kafka-clicks-topic are \
             both {}",
            self.kafka.topic
        );
        Ok(())
    }

    async fn create(&self, stream: Stream, kafka: &KafkaConfig) -> anyhow::Result<CheckedTopic> {
        let cluster = topic::describe(kafka).await?;
        let wanted = self.settings(stream, &cluster);
        if let Some(topic) = &cluster.topic {
            return Ok(CheckedTopic::of(stream, kafka, topic, &wanted, false));
        }
        ensure!(
            wanted.min_insync_replicas <= wanted.replication_factor,
            "--min-insync-replicas {} must not exceed --replication-factor {}",
            wanted.min_insync_replicas,
            wanted.replication_factor
        );
        let created = topic::create(kafka, wanted).await?;
        // The brokers hear of a new topic, and its partitions get their leaders, a moment later.
        for _ in 1..LOOKS_MAX {
            if let Ok(cluster) = topic::describe(kafka).await
                && let Some(topic) = &cluster.topic
            {
                return Ok(CheckedTopic::of(stream, kafka, topic, &wanted, created));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        bail!(
            "the topic {} exists, but the cluster does not list the topic yet; run \
             `command-api topic check`",
            kafka.topic
        )
    }

    async fn check(&self, stream: Stream, kafka: &KafkaConfig) -> anyhow::Result<CheckedTopic> {
        let cluster = topic::describe(kafka).await?;
        let Some(topic) = &cluster.topic else {
            let name = &kafka.topic;
            let (option, otherwise) = match stream {
                Stream::Events => ("--kafka-topic", ""),
                Stream::Clicks => (
                    "--kafka-clicks-topic",
                    ", or leave clicks out with --clicks off",
                ),
            };
            bail!(
                "the topic {name} does not exist; create it: `command-api topic create {option} \
                 {name}`{otherwise}"
            )
        };
        let wanted = self.settings(stream, &cluster);
        Ok(CheckedTopic::of(stream, kafka, topic, &wanted, false))
    }

    fn settings(&self, stream: Stream, cluster: &Cluster) -> WantedSettings {
        let brokers = i32::try_from(cluster.brokers).unwrap_or(i32::MAX);
        let replication_factor = self
            .replication_factor
            .unwrap_or_else(|| brokers.clamp(1, REPLICATION_FACTOR));
        WantedSettings {
            retention_days: match stream {
                Stream::Events => self.retention_days,
                Stream::Clicks => self.clicks_retention_days,
            },
            replication_factor,
            min_insync_replicas: self
                .min_insync_replicas
                .unwrap_or_else(|| (replication_factor - 1).max(1)),
        }
    }
}
