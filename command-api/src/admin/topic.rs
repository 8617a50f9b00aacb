//! Commands `topic create` and `topic check`: creation and check of the topic of the event stream.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand};
use linkledger_core::kafka_config::KafkaConfig;
use serde::Serialize;

use super::print;
use crate::relay::topic::{
    self, Cluster, Settings, Topic,
    judgement::{CheckedSetting, WantedSettings, judge},
};

/// Default replication factor, if the cluster has as many brokers.
const REPLICATION_FACTOR: i32 = 3;
/// Interval between two lookups of a topic that was just created.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Highest number of lookups.
const LOOKS_MAX: u32 = 50;

/// Subcommand of `topic`.
#[derive(Debug, Subcommand)]
pub enum TopicSubcommand {
    /// Create the topic of the event stream: a partition for each shard, never compacted. Safe to
    /// repeat: an existing topic is checked and not changed.
    Create(WantedTopic),
    /// Show the actual and the wanted value of each relevant setting of the topic. Exits with 1 if
    /// a value is wrong.
    Check(WantedTopic),
}

/// Wanted state of the topic.
#[derive(Debug, Clone, Args)]
pub struct WantedTopic {
    #[command(flatten)]
    pub kafka: KafkaConfig,
    /// Lowest retention in days, counted from the time of an event; 0 for unlimited.
    #[arg(long, default_value_t = 30)]
    pub retention_days: u16,
    /// Brokers that keep each event [default: 3, or as many as there are].
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    pub replication_factor: Option<i32>,
    /// Brokers that must have an event before the event counts as published [default: one fewer
    /// than --replication-factor, at least 1].
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    pub min_insync_replicas: Option<i32>,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Result of the check of a topic.
#[derive(Debug, Serialize)]
pub struct CheckedTopic {
    /// Name of the topic.
    pub topic: String,
    /// Id of the cluster.
    pub cluster_id: Option<String>,
    /// True if the command has created the topic.
    pub created: bool,
    /// True if the topic has no records; unknown for a wrong number of partitions.
    pub empty: Option<bool>,
    /// Check of each setting.
    pub settings: Vec<CheckedSetting>,
    /// Remedies for wrong settings.
    pub remedies: Vec<String>,
}

pub(super) async fn run(command: TopicSubcommand) -> anyhow::Result<()> {
    let (json, checked) = match command {
        TopicSubcommand::Create(wanted) => (wanted.json, create(&wanted).await?),
        TopicSubcommand::Check(wanted) => (wanted.json, check(&wanted).await?),
    };
    print(json, &checked, &checked.text())?;
    let settings = checked.settings.iter();
    let count = settings.filter(|setting| setting.verdict.is_bad()).count();
    ensure!(
        count == 0,
        "{count} of the settings of the topic {} must be changed",
        checked.topic
    );
    ensure!(
        checked.remedies.is_empty(),
        "the settings of the topic {} cannot be read",
        checked.topic
    );
    Ok(())
}

/// Creates the topic, unless the topic exists, and checks the topic.
///
/// # Errors
/// Returns an error if the cluster refuses the topic or does not answer.
pub async fn create(wanted: &WantedTopic) -> anyhow::Result<CheckedTopic> {
    let cluster = topic::describe(&wanted.kafka).await?;
    if let Some(topic) = &cluster.topic {
        return Ok(CheckedTopic::of(wanted, &cluster, topic, false));
    }
    let settings = wanted.of(&cluster);
    ensure!(
        settings.min_insync_replicas <= settings.replication_factor,
        "--min-insync-replicas {} must not exceed --replication-factor {}",
        settings.min_insync_replicas,
        settings.replication_factor
    );
    topic::create(&wanted.kafka, settings).await?;
    // The partitions get their leaders a moment later.
    for _ in 1..LOOKS_MAX {
        if let Ok(cluster) = topic::describe(&wanted.kafka).await
            && let Some(topic) = &cluster.topic
        {
            return Ok(CheckedTopic::of(wanted, &cluster, topic, true));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    bail!(
        "the topic was created, but the cluster does not list the topic yet; run `command-api topic check`"
    )
}

/// Compares the topic with the wanted settings.
///
/// # Errors
/// Returns an error if the topic does not exist, or the cluster does not answer.
pub async fn check(wanted: &WantedTopic) -> anyhow::Result<CheckedTopic> {
    let cluster = topic::describe(&wanted.kafka).await?;
    let topic = cluster.topic.as_ref().with_context(|| {
        let name = wanted.kafka.topic.as_str();
        format!(
            "the topic {name} does not exist; create it: `command-api topic create --kafka-topic \
             {name}`"
        )
    })?;
    Ok(CheckedTopic::of(wanted, &cluster, topic, false))
}

impl WantedTopic {
    fn of(&self, cluster: &Cluster) -> WantedSettings {
        let brokers = i32::try_from(cluster.brokers).unwrap_or(i32::MAX);
        let replication_factor = self
            .replication_factor
            .unwrap_or_else(|| brokers.clamp(1, REPLICATION_FACTOR));
        WantedSettings {
            retention_days: self.retention_days,
            replication_factor,
            min_insync_replicas: self
                .min_insync_replicas
                .unwrap_or_else(|| (replication_factor - 1).max(1)),
        }
    }
}

impl CheckedTopic {
    fn of(wanted: &WantedTopic, cluster: &Cluster, topic: &Topic, created: bool) -> Self {
        let settings = judge(topic, &wanted.of(cluster));
        Self {
            topic: topic.name.clone(),
            cluster_id: topic.cluster_id.clone(),
            created,
            empty: (!topic.watermarks.is_empty()).then(|| topic.is_empty()),
            remedies: remedies(&wanted.kafka, topic, &settings),
            settings,
        }
    }

    fn text(&self) -> String {
        let mut lines = vec![format!(
            "{} the topic {} in cluster {}{}.\n\n{:<24}  {:<16}  {:<20}  VERDICT",
            if self.created { "Created" } else { "This is" },
            self.topic,
            self.cluster_id.as_deref().unwrap_or("(without an id)"),
            match self.empty {
                Some(true) => "; it is empty",
                Some(false) => "; it has records",
                None => "",
            },
            "SETTING",
            "IS",
            "SHOULD BE"
        )];
        for finding in &self.settings {
            lines.push(format!(
                "{:<24}  {:<16}  {:<20}  {}",
                finding.setting,
                finding.is,
                finding.should_be,
                finding.verdict.text()
            ));
        }
        lines.extend(self.remedies.iter().map(|remedy| format!("\n{remedy}")));
        lines.join("\n")
    }
}

fn remedies(kafka: &KafkaConfig, topic: &Topic, findings: &[CheckedSetting]) -> Vec<String> {
    let name = &topic.name;
    let mut remedies = Vec::new();
    let is_bad = |setting| {
        let mut bad = findings.iter().filter(|checked| checked.verdict.is_bad());
        bad.any(|checked| checked.setting == setting)
    };
    if is_bad("partitions") {
        remedies.push(
            "A topic keeps its partitions: delete it, then `command-api topic create` and \
             `command-api relay refill --from 0`."
                .to_owned(),
        );
    }
    if is_bad("replication factor") {
        remedies.push("More replicas: kafka-reassign-partitions.sh.".to_owned());
    }
    let values: Vec<&str> = findings
        .iter()
        .filter_map(|checked| checked.remedy.as_deref())
        .collect();
    if !values.is_empty() {
        remedies.push(format!(
            "kafka-configs.sh --bootstrap-server {} --alter --entity-type topics --entity-name \
             {name} --add-config {}",
            kafka.brokers,
            values.join(",")
        ));
    }
    if topic.settings == Settings::Denied {
        remedies.push(format!(
            "Grant DescribeConfigs on the topic {name} to this principal: only then a wrong \
             setting is noticed."
        ));
    }
    remedies
}
