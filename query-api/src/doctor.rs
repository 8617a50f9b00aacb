//! `check-config` examines the settings alone; `doctor` also examines the servers that the settings name.

use linkledger_core::{
    config::Secret,
    cursor::CursorKeys,
    databases::DatabaseOf,
    doctor::{self, DatabaseRequirements, Finding, Severity, configuration, rights::Privilege},
    event_store::SessionKind,
    migrations::Schema,
};

use crate::{FOLLOWER_CONNECTIONS, SHORT_HOST_CONNECTIONS, config::QueryApiSettings};

/// Rights that query-api needs. A database whose grants are of an older release lacks some of them.
const RIGHTS: [Privilege; 11] = [
    ("event_store.log_meta", "SELECT"),
    ("event_store.events", "SELECT"),
    ("event_store.slugs", "SELECT"),
    ("event_store.accounts", "SELECT"),
    ("event_store.api_keys", "SELECT"),
    ("event_store.api_keys", "UPDATE"),
    ("read_model.followed_log", "SELECT"),
    ("read_model.links", "SELECT"),
    ("read_model.redirects", "SELECT"),
    ("read_model.credit_entries", "SELECT"),
    ("read_model.redirect_changes", "SELECT"),
];

/// Examines the settings without connecting to a server.
pub fn check_config(QueryApiSettings { config, listen }: &QueryApiSettings) -> Vec<Finding> {
    let databases = config.databases.all();
    let addresses = databases.iter().map(|it| it.url);
    let replicas = config.read_replica_urls.iter().map(Secret::reveal);
    let addresses = addresses.chain(replicas);
    let mut findings: Vec<Finding> = addresses.flat_map(configuration::database).collect();
    findings.push(match CursorKeys::parse(config.cursor_keys.reveal()) {
        Ok(_) => Finding::ok("cursor keys", "valid"),
        Err(error) => {
            let remedy = "give 32 random bytes in hex: openssl rand -hex 32";
            Finding::new("cursor keys", Severity::Error, error.to_string(), remedy)
        }
    });
    findings.push(configuration::telemetry(&listen.telemetry));
    let listens_to_others =
        !listen.api_listen.ip().is_loopback() || !listen.short_listen.ip().is_loopback();
    findings.extend(configuration::public_addresses(
        listens_to_others,
        &[
            ("--base-url", &config.base_url),
            ("--short-base-url", &config.short_base_url),
        ],
    ));
    findings
}

/// Examines the settings and the database that they name.
pub async fn examine(settings: &QueryApiSettings) -> Vec<Finding> {
    let config = &settings.config;
    let requirements = DatabaseRequirements {
        kind: SessionKind::Reader,
        allows_unsafe: config.allow_unsafe_postgres,
        connections_max: config.connections_max
            + config.connections_max.min(SHORT_HOST_CONNECTIONS)
            + FOLLOWER_CONNECTIONS,
        rights: &RIGHTS,
        role: "linkledger_query_api",
    };
    let mut findings = check_config(settings);
    findings.extend(doctor::examine_each(&config.databases, &requirements).await);
    for replica in &config.read_replica_urls {
        let replica = DatabaseOf {
            url: replica.reveal(),
            schemas: &[Schema::ReadModel],
        };
        let requirements = DatabaseRequirements {
            kind: SessionKind::Replica,
            ..requirements
        };
        findings.extend(doctor::examine(replica, &requirements).await);
    }
    findings
}
