//! Checks of the dispatcher of webhooks.

use linkledger_event_store::{SessionKind, migrations::Schema};
use linkledger_service::{
    databases::DatabaseOf,
    doctor::{self, DatabaseRequirements, Finding, configuration, rights::Privilege},
};

use crate::webhooks::{
    FURTHER_CONNECTIONS,
    config::{WebhooksConfig, WebhooksSettings},
};

/// Sample of the rights that the dispatcher needs: older grants lack some of them.
const RIGHTS: [Privilege; 9] = [
    ("event_store.events", "SELECT"),
    ("event_store.events", "INSERT"),
    ("event_store.log_shards", "UPDATE (head)"),
    ("event_store.webhooks", "UPDATE (enabled)"),
    ("event_store.webhook_cursors", "UPDATE (position)"),
    ("event_store.webhook_cursors", "DELETE"),
    ("event_store.webhook_health", "UPDATE (notified_hours)"),
    ("event_store.webhook_deliveries", "INSERT"),
    ("event_store.webhook_dispatcher", "UPDATE (owner)"),
];

/// Checks the settings of the dispatcher without a connection.
pub fn check_webhooks_config(settings: &WebhooksSettings) -> Vec<Finding> {
    let WebhooksSettings { config, listen } = settings;
    let mut findings = configuration::database(config.database.log_url());
    findings.push(master_keys(config));
    findings.push(configuration::telemetry(&listen.telemetry));
    findings
}

/// Checks the settings of the dispatcher, and the database.
pub async fn examine_webhooks(settings: &WebhooksSettings) -> Vec<Finding> {
    let config = &settings.config;
    let requirements = DatabaseRequirements {
        kind: SessionKind::Writer,
        allows_unsafe: config.allow_unsafe_postgres,
        connections_max: config.webhooks_database_pool_size + FURTHER_CONNECTIONS,
        rights: &RIGHTS,
        role: "linkledger_webhooks",
    };
    let database = DatabaseOf {
        url: config.database.log_url(),
        schemas: &[Schema::EventStore],
    };
    let mut findings = check_webhooks_config(settings);
    findings.extend(doctor::examine(database, &requirements).await);
    findings
}

fn master_keys(config: &WebhooksConfig) -> Finding {
    match config.master_keys() {
        Ok(keys) => Finding::ok(
            "master keys",
            format!("`{}` is the newest", keys.newest_id()),
        ),
        Err(error) => Finding::failed("master keys", &error),
    }
}
