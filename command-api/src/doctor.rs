//! `check-config` examines the settings alone; `doctor` also examines the servers that the settings name.

use linkledger_event_store::{SessionKind, migrations::Schema};
use linkledger_service::{
    databases::DatabaseOf,
    doctor::{
        self, DatabaseRequirements, Finding, Severity, configuration, rights::Privilege,
        same_database,
    },
};

use crate::{
    ADMIN_CONNECTIONS_MAX, ENTRANCE_CONNECTIONS_MAX, OBSERVER_CONNECTIONS_MAX,
    READER_CONNECTIONS_MAX, RELAY_CONNECTIONS_MAX, SEALER_CONNECTIONS_MAX, WEBHOOK_CONNECTIONS_MAX,
    admin::topic::{self, CheckedTopic, RETENTION_DAYS, WantedTopics},
    command_queue::SESSIONS_PER_WRITER,
    config::CommandApiSettings,
    relay::topic::check_settings::{CheckedSetting, SettingVerdict},
};

/// Rights that command-api needs. A database whose grants are of an older release lacks some of them.
const RIGHTS: [Privilege; 16] = [
    ("event_store.log_meta", "SELECT"),
    ("event_store.log_meta", "UPDATE (link_price)"),
    ("event_store.accounts", "UPDATE"),
    ("event_store.slugs", "INSERT"),
    ("event_store.slugs", "DELETE"),
    ("event_store.log_shards", "UPDATE"),
    ("event_store.events", "SELECT"),
    ("event_store.events", "INSERT"),
    ("event_store.api_keys", "SELECT"),
    ("event_store.api_keys", "INSERT"),
    ("event_store.api_keys", "UPDATE"),
    ("event_store.console_sessions", "DELETE"),
    ("event_store.link_expiries", "DELETE"),
    ("event_store.log_segments", "INSERT"),
    ("event_store.webhooks", "INSERT"),
    ("event_store.webhook_deliveries", "INSERT"),
];
/// Further rights that the admin API needs.
const ADMIN_RIGHTS: [Privilege; 3] = [
    ("event_store.accounts", "INSERT"),
    ("event_store.console_sessions", "INSERT"),
    ("event_store.admin_keys", "SELECT"),
];
/// Rights that the relay needs, which may connect with a separate user.
const RELAY_RIGHTS: [Privilege; 4] = [
    ("event_store.log_meta", "SELECT (record_key)"),
    ("event_store.events", "SELECT"),
    ("event_store.relay_cursors", "UPDATE"),
    ("event_store.relay_producers", "DELETE"),
];

/// Examines the settings without connecting to a server.
pub fn check_config(settings: &CommandApiSettings) -> Vec<Finding> {
    let CommandApiSettings { config, listen, .. } = settings;
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
    let mut connections_max = u32::from(config.writer_threads) * SESSIONS_PER_WRITER
        + READER_CONNECTIONS_MAX
        + RELAY_CONNECTIONS_MAX
        + SEALER_CONNECTIONS_MAX
        + OBSERVER_CONNECTIONS_MAX
        + ENTRANCE_CONNECTIONS_MAX
        + WEBHOOK_CONNECTIONS_MAX;
    let mut rights = RIGHTS.to_vec();
    if settings.listen.admin_listen.is_some() {
        connections_max += ADMIN_CONNECTIONS_MAX;
        rights.extend(ADMIN_RIGHTS);
    }
    let patient = DatabaseRequirements {
        kind: SessionKind::Writer,
        allows_unsafe: config.allow_unsafe_postgres,
        connections_max,
        rights: &rights,
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
    findings.extend(topics(settings).await);
    findings
}

async fn topics(settings: &CommandApiSettings) -> Vec<Finding> {
    let wanted = WantedTopics {
        kafka: settings.config.kafka.clone(),
        clicks: settings.clicks.clone(),
        retention_days: RETENTION_DAYS,
        clicks_retention_days: RETENTION_DAYS,
        replication_factor: None,
        min_insync_replicas: None,
        json: false,
    };
    let of_checked = |checked: anyhow::Result<Option<CheckedTopic>>, check| match checked {
        Ok(checked) => checked.map_or_else(Vec::new, |topic| of_topic(&topic, check)),
        Err(error) => vec![Finding::failed(check, &error)],
    };
    let events = topic::check_events(&wanted).await.map(Some);
    let mut findings = of_checked(events, "topic");
    let clicks = topic::check_clicks(&wanted).await;
    findings.extend(of_checked(clicks, "topic of clicks"));
    findings
}

/// Returns a finding for each setting of the topic, and one for all settings that the broker does not
/// tell.
fn of_topic(topic: &CheckedTopic, check: &'static str) -> Vec<Finding> {
    let (known, unknown): (Vec<_>, Vec<_>) = topic
        .settings
        .iter()
        .partition(|setting| setting.verdict != SettingVerdict::Unknown);
    let mut findings: Vec<Finding> = known
        .into_iter()
        .map(|setting| of_setting(setting, check))
        .collect();
    if !unknown.is_empty() {
        let names: Vec<_> = unknown.iter().map(|setting| setting.setting).collect();
        let is = format!("the broker does not tell {}", names.join(", "));
        findings.push(Finding::new(check, Severity::Unseen, is, ""));
    }
    findings
}

fn of_setting(setting: &CheckedSetting, check: &'static str) -> Finding {
    let severity = match setting.verdict {
        SettingVerdict::Ok => Severity::Ok,
        SettingVerdict::Wrong => Severity::Warning,
        SettingVerdict::Fragile | SettingVerdict::Refused => Severity::Error,
        SettingVerdict::Unknown => Severity::Unseen,
    };
    let remedy = format!(
        "should be {}: `command-api topic check` prints the command that changes the setting",
        setting.should_be
    );
    let remedy = Some(remedy).filter(|_| setting.verdict.is_bad());
    let is = format!("{} is {}", setting.setting, setting.is);
    Finding::new(check, severity, is, remedy.unwrap_or_default())
}
