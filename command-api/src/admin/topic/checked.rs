//! Result of `topic create` and `topic check`: actual and wanted settings, and remedies.

use anyhow::ensure;
use linkledger_service::kafka_config::KafkaConfig;
use serde::Serialize;

use crate::relay::topic::{
    Stream, Topic, TopicSettings,
    check_settings::{CheckedSetting, WantedSettings, check_settings},
};

/// Result of the check of both topics; as JSON, the members of the topic of events, and `clicks`.
#[derive(Debug, Serialize)]
pub struct CheckedTopics {
    /// Topic of events.
    #[serde(flatten)]
    pub events: CheckedTopic,
    /// Topic of clicks; `None` without clicks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clicks: Option<CheckedTopic>,
}

/// Result of the check of a topic.
#[derive(Debug, Serialize)]
pub struct CheckedTopic {
    /// Stream on the topic.
    #[serde(skip)]
    pub stream: Stream,
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

impl CheckedTopics {
    /// Returns the results of both topics.
    pub fn each(&self) -> impl Iterator<Item = &CheckedTopic> {
        [&self.events].into_iter().chain(&self.clicks)
    }

    pub(super) fn text(&self) -> String {
        let texts: Vec<_> = self.each().map(CheckedTopic::text).collect();
        texts.join("\n\n")
    }

    /// Returns an error if a setting of a topic must be changed.
    pub(super) fn ensure_right(&self) -> anyhow::Result<()> {
        self.each().try_for_each(CheckedTopic::ensure_right)
    }
}

impl CheckedTopic {
    pub(super) fn of(
        stream: Stream,
        kafka: &KafkaConfig,
        topic: &Topic,
        wanted: &WantedSettings,
        created: bool,
    ) -> Self {
        let settings = check_settings(topic, wanted);
        Self {
            stream,
            topic: topic.name.clone(),
            cluster_id: topic.cluster_id.clone(),
            created,
            empty: (!topic.watermarks.is_empty()).then(|| topic.is_empty()),
            remedies: remedies(stream, kafka, topic, &settings),
            settings,
        }
    }

    fn ensure_right(&self) -> anyhow::Result<()> {
        let settings = self.settings.iter();
        let count = settings.filter(|setting| setting.verdict.is_bad()).count();
        ensure!(
            count == 0,
            "{count} of the settings of the topic {} must be changed",
            self.topic
        );
        ensure!(
            self.remedies.is_empty(),
            "the settings of the topic {} cannot be read",
            self.topic
        );
        Ok(())
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
                finding.verdict.text(self.stream)
            ));
        }
        lines.extend(self.remedies.iter().map(|remedy| format!("\n{remedy}")));
        lines.join("\n")
    }
}

fn remedies(
    stream: Stream,
    kafka: &KafkaConfig,
    topic: &Topic,
    findings: &[CheckedSetting],
) -> Vec<String> {
    let name = &topic.name;
    let mut remedies = Vec::new();
    let is_bad = |setting| {
        let mut bad = findings.iter().filter(|checked| checked.verdict.is_bad());
        bad.any(|checked| checked.setting == setting)
    };
    if is_bad("partitions") {
        let remedy = match stream {
            Stream::Events => {
                "A topic keeps its partitions: delete it, then `command-api topic create` and \
                 `command-api relay republish --from 0`."
            }
            Stream::Clicks => {
                "A topic keeps its partitions: delete it, then `command-api topic create`. Clicks \
                 that are not counted yet are lost."
            }
        };
        remedies.push(remedy.to_owned());
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
    if topic.settings == TopicSettings::Denied {
        remedies.push(format!(
            "Grant DescribeConfigs on the topic {name} to this principal: only then a wrong \
             setting is noticed."
        ));
    }
    remedies
}
