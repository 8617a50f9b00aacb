//! `check-config` and `doctor`: the settings alone, and what they lead to.

use linkledger_core::{
    cursor::CursorKeys,
    doctor::{self, DatabaseRequirements, Finding, Severity, configuration, rights::Privilege},
    event_store::SessionKind,
};

use crate::{FOLLOWER_CONNECTIONS, config::Settings};

/// What the service reads and writes, in short: a release whose grants are older lacks some.
const RIGHTS: [Privilege; 10] = [
    ("event_store.log_meta", "SELECT"),
    ("event_store.events", "SELECT"),
    ("event_store.slugs", "SELECT"),
    ("event_store.accounts", "SELECT"),
    ("event_store.api_keys", "SELECT"),
    ("event_store.api_keys", "UPDATE"),
    ("read_model.links", "SELECT"),
    ("read_model.redirects", "SELECT"),
    ("read_model.credit_entries", "SELECT"),
    ("read_model.redirect_changes", "SELECT"),
];

/// What can be said of the settings without connecting to anything.
pub fn check_config(Settings { config, listen }: &Settings) -> Vec<Finding> {
    let mut findings = configuration::database(config.database_url.reveal());
    findings.push(match CursorKeys::parse(config.cursor_keys.reveal()) {
        Ok(_) => Finding::ok("cursor keys", "they can be used"),
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

/// That, and what the settings lead to.
pub async fn examine(settings: &Settings) -> Vec<Finding> {
    let config = &settings.config;
    let patient = DatabaseRequirements {
        database_url: config.database_url.reveal(),
        kind: SessionKind::Reader,
        allows_unsafe: config.allow_unsafe_postgres,
        connections_max: config.connections_max + FOLLOWER_CONNECTIONS,
        rights: &RIGHTS,
        role: "linkledger_query_api",
    };
    let mut findings = check_config(settings);
    findings.extend(doctor::examine(&patient).await);
    findings
}
