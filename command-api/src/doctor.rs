//! `check-config` examines the settings alone; `doctor` also examines the servers that the settings name.

use linkledger_core::{
    databases::DatabaseOf,
    doctor::{
        self, DatabaseRequirements, Finding, Severity, configuration, rights::Privilege,
        same_database,
    },
    event_store::SessionKind,
    migrations::Schema,
};

use crate::{
    READER_CONNECTIONS_MAX, RELAY_CONNECTIONS_MAX, SEALER_CONNECTIONS_MAX,
    admin::topic::{self, CheckedTopic, WantedTopic},
    command_queue::SESSIONS_PER_WRITER,
    config::{CommandApiConfig, CommandApiSettings},
    relay::topic::judgement::{CheckedSetting, SettingVerdict},
};

/// Rights that command-api needs. A database whose grants are of an older release lacks some of them.
const RIGHTS: [Privilege; 10] = [
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
/// Rights that the relay needs, which may connect with a separate user.
const RELAY_RIGHTS: [Privilege; 3] = [
    ("event_store.events", "SELECT"),
    ("event_store.relay_cursors", "UPDATE"),
    ("event_store.relay_producers", "DELETE"),
];
/// Retention of the topic that `doctor` asks for, in days: the default of `topic check`.
const RETENTION_DAYS: u16 = 30;

/// Examines the settings without connecting to a server.
pub fn check_config(CommandApiSettings { config, listen }: &CommandApiSettings) -> Vec<Finding> {
    let mut findings = configuration::database(config.database.log_url());
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

/// Examines the settings, and the database and the topic that they name.
pub async fn examine(settings: &CommandApiSettings) -> Vec<Finding> {
    let config = &settings.config;
    let connections_max = u32::from(config.writers) * SESSIONS_PER_WRITER
        + READER_CONNECTIONS_MAX
        + RELAY_CONNECTIONS_MAX
        + SEALER_CONNECTIONS_MAX;
    let patient = DatabaseRequirements {
        kind: SessionKind::Writer,
        allows_unsafe: config.allow_unsafe_postgres,
        connections_max,
        rights: &RIGHTS,
        role: "linkledger_command_api",
    };
    let mut findings = check_config(settings);
    let database = DatabaseOf {
        url: config.database.log_url(),
        schemas: &[Schema::EventStore],
    };
    findings.extend(doctor::examine(database, &patient).await);
    let relay = doctor::rights_of(
        config.relay_database_url(),
        &RELAY_RIGHTS,
        "linkledger_relay",
    );
    findings.extend(relay.await);
    if let Some(relay_url) = &config.relay_database_url {
        findings.push(same_database::look(database.url, relay_url.reveal()).await);
    }
    findings.extend(topic(config).await);
    findings
}

async fn topic(config: &CommandApiConfig) -> Vec<Finding> {
    let wanted = WantedTopic {
        kafka: config.kafka.clone(),
        retention_days: RETENTION_DAYS,
        replication_factor: None,
        min_insync_replicas: None,
        json: false,
    };
    match topic::check(&wanted).await {
        Ok(checked) => of_topic(&checked),
        Err(error) => vec![Finding::failed("topic", &error)],
    }
}

/// Returns a finding for each setting of the topic, and one for all settings that the broker does not
/// tell.
fn of_topic(topic: &CheckedTopic) -> Vec<Finding> {
    let (known, unknown): (Vec<_>, Vec<_>) = topic
        .settings
        .iter()
        .partition(|setting| setting.verdict != SettingVerdict::Unknown);
    let mut findings: Vec<Finding> = known.into_iter().map(of_setting).collect();
    if !unknown.is_empty() {
        let names: Vec<_> = unknown.iter().map(|setting| setting.setting).collect();
        let is = format!("the broker does not tell {}", names.join(", "));
        findings.push(Finding::new("topic", Severity::Unseen, is, ""));
    }
    findings
}

fn of_setting(setting: &CheckedSetting) -> Finding {
    let severity = match setting.verdict {
        SettingVerdict::Ok => Severity::Ok,
        SettingVerdict::Wrong => Severity::Warning,
        SettingVerdict::Refused => Severity::Error,
        SettingVerdict::Unknown => Severity::Unseen,
    };
    let remedy = format!(
        "should be {}: `command-api topic check` prints the command that changes the setting",
        setting.should_be
    );
    let remedy = Some(remedy).filter(|_| setting.verdict.is_bad());
    let is = format!("{} is {}", setting.setting, setting.is);
    Finding::new("topic", severity, is, remedy.unwrap_or_default())
}
