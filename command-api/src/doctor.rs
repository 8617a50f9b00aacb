//! `check-config` and `doctor`: the settings alone, and what they lead to.

use linkledger_core::{
    doctor::{self, Finding, Patient, Verdict, configuration, rights::Right, same_database},
    event_store::SessionKind,
    failure,
};

use crate::{
    READER_CONNECTIONS_MAX, RELAY_CONNECTIONS_MAX, SEALER_CONNECTIONS_MAX,
    admin::topic::{self, CheckedTopic, WantedTopic},
    config::{Config, Settings},
    relay::topic::judgement,
};

/// What the service reads and writes, in short: a release whose grants are older lacks some.
const RIGHTS: [Right; 10] = [
    ("event_store.log_meta", "SELECT"),
    ("event_store.accounts", "UPDATE"),
    ("event_store.slugs", "INSERT"),
    ("event_store.slugs", "DELETE"),
    ("event_store.log_shards", "UPDATE"),
    ("event_store.events", "SELECT"),
    ("event_store.events", "INSERT"),
    ("event_store.api_keys", "SELECT"),
    ("event_store.api_keys", "UPDATE"),
    ("event_store.log_segments", "INSERT"),
];
/// What its relay does, with a user of its own perhaps.
const RELAY_RIGHTS: [Right; 3] = [
    ("event_store.events", "SELECT"),
    ("event_store.relay_cursors", "UPDATE"),
    ("event_store.relay_producers", "DELETE"),
];
/// Days for which events should be kept, as `topic check` has it.
const RETENTION_DAYS: u16 = 30;

/// What can be said of the settings without connecting to anything.
pub fn check_config(Settings { config, listen }: &Settings) -> Vec<Finding> {
    let mut findings = configuration::database(config.database.database_url.reveal());
    if let Some(url) = &config.relay_database_url {
        findings.extend(configuration::database(url.reveal()));
    }
    findings.push(configuration::kafka(&config.kafka));
    findings.push(configuration::telemetry(&listen.telemetry));
    findings.extend(configuration::public_addresses(
        !listen.api_listen.ip().is_loopback(),
        &[
            ("--base-url", &config.base_url),
            ("--short-base-url", &config.short_base_url),
        ],
    ));
    findings
}

/// That, and what the settings lead to.
pub async fn examine(settings: &Settings) -> Vec<Finding> {
    let config = &settings.config;
    let connections_max = u32::from(config.writers)
        + READER_CONNECTIONS_MAX
        + RELAY_CONNECTIONS_MAX
        + SEALER_CONNECTIONS_MAX;
    let patient = Patient {
        database_url: config.database.database_url.reveal(),
        kind: SessionKind::Writer,
        allows_unsafe: config.allow_unsafe_postgres,
        connections_max,
        rights: &RIGHTS,
        role: "linkledger_command_api",
    };
    let mut findings = check_config(settings);
    findings.extend(doctor::examine(&patient).await);
    let relay = doctor::rights_of(
        config.relay_database_url(),
        &RELAY_RIGHTS,
        "linkledger_relay",
    );
    findings.extend(relay.await);
    if let Some(relay_url) = &config.relay_database_url {
        findings.push(same_database::look(patient.database_url, relay_url.reveal()).await);
    }
    findings.extend(topic(config).await);
    findings
}

async fn topic(config: &Config) -> Vec<Finding> {
    let wanted = WantedTopic {
        kafka: config.kafka.clone(),
        retention_days: RETENTION_DAYS,
        replication_factor: None,
        min_insync_replicas: None,
        json: false,
    };
    match topic::check(&wanted).await {
        Ok(checked) => of_topic(&checked),
        Err(error) => vec![Finding::new(
            "topic",
            Verdict::Error,
            failure::text(&error),
            "",
        )],
    }
}

fn of_topic(topic: &CheckedTopic) -> Vec<Finding> {
    let settings = topic.settings.iter().map(|it| {
        let verdict = match it.verdict {
            judgement::SettingVerdict::Ok => Verdict::Ok,
            judgement::SettingVerdict::Wrong => Verdict::Warning,
            judgement::SettingVerdict::Refused => Verdict::Error,
            judgement::SettingVerdict::Unknown => Verdict::Unseen,
        };
        let remedy = match it.verdict {
            judgement::SettingVerdict::Wrong | judgement::SettingVerdict::Refused => {
                format!(
                    "should be {}: `command-api topic check` says how",
                    it.should_be
                )
            }
            judgement::SettingVerdict::Ok | judgement::SettingVerdict::Unknown => String::new(),
        };
        Finding::new(
            "topic",
            verdict,
            format!("{} is {}", it.setting, it.is),
            remedy,
        )
    });
    settings.collect()
}
