//! `check-config` examines the settings alone; `doctor` also examines the servers that the settings name.

use linkledger_core::{
    clock::{Clock as _, SystemClock},
    config::Secret,
};
use linkledger_event_store::{SessionKind, migrations::Schema};
use linkledger_service::{
    databases::DatabaseOf,
    doctor::{self, DatabaseRequirements, Finding, Severity, configuration, rights::Privilege},
    kafka_config::KafkaConfig,
};
use sqlx::PgPool;

use crate::{
    ADMIN_CONNECTIONS, FEED_CONNECTIONS, FOLLOWER_CONNECTIONS, HISTORY_CONNECTIONS,
    SHORT_HOST_CONNECTIONS, STATISTICS_CONNECTIONS,
    clicks::{self, ClickSettings, RECORDER_CONNECTIONS},
    config::QueryApiSettings,
};

/// Rights that query-api needs. A database whose grants are of an older release lacks some of them.
const RIGHTS: [Privilege; 27] = [
    ("event_store.log_meta", "SELECT (click_record_key)"),
    ("event_store.events", "SELECT"),
    ("event_store.slugs", "SELECT"),
    ("event_store.accounts", "SELECT"),
    ("event_store.accounts", "SELECT (low_balance_at)"),
    ("event_store.admin_keys", "SELECT"),
    ("event_store.external_ids", "SELECT"),
    ("event_store.api_keys", "SELECT"),
    ("event_store.api_keys", "UPDATE"),
    ("event_store.webhooks", "SELECT"),
    ("read_model.followed_log", "SELECT"),
    ("read_model.links", "SELECT"),
    ("read_model.redirects", "SELECT"),
    ("read_model.credit_entries", "SELECT"),
    ("read_model.redirect_changes", "SELECT"),
    ("clicks.recorders", "INSERT"),
    ("clicks.recorders", "UPDATE (same_address)"),
    ("clicks.heartbeats", "DELETE"),
    ("clicks.salts", "SELECT"),
    ("clicks.sequences", "SELECT"),
    ("clicks.positions", "SELECT"),
    ("clicks.link_15min", "SELECT"),
    ("clicks.link_days", "SELECT"),
    ("clicks.link_values", "SELECT"),
    ("clicks.account_15min", "SELECT"),
    ("clicks.account_days", "SELECT"),
    ("clicks.account_values", "SELECT"),
];

/// Examines the settings without connecting to a server.
pub fn check_config(QueryApiSettings { config, listen }: &QueryApiSettings) -> Vec<Finding> {
    let databases = config.databases.all();
    let addresses = databases.iter().map(|it| it.url);
    let replicas = config.read_replica_urls.iter().map(Secret::reveal);
    let addresses = addresses.chain(replicas);
    let mut findings: Vec<Finding> = addresses.flat_map(configuration::database).collect();
    findings.extend(clicks_settings(&config.clicks));
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
    let of_admin_api = match settings.listen.admin_listen {
        Some(_) => config.database_pool_size.min(ADMIN_CONNECTIONS),
        None => 0,
    };
    let requirements = DatabaseRequirements {
        kind: SessionKind::Reader,
        allows_unsafe: config.allow_unsafe_postgres,
        connections_max: config.database_pool_size
            + config.database_pool_size.min(SHORT_HOST_CONNECTIONS)
            + config.database_pool_size.min(STATISTICS_CONNECTIONS)
            + config.database_pool_size.min(HISTORY_CONNECTIONS)
            + config.database_pool_size.min(FEED_CONNECTIONS)
            + of_admin_api
            + FOLLOWER_CONNECTIONS
            + RECORDER_CONNECTIONS,
        rights: &RIGHTS,
        role: "linkledger_query_api",
    };
    let mut findings = check_config(settings);
    findings.extend(doctor::examine_each(&config.databases, &requirements).await);
    if let Ok(Some(kafka)) = config.clicks.kafka() {
        findings.push(clicks_topic(&kafka).await);
        // An invalid address is a finding already.
        let pool =
            linkledger_event_store::pool(config.databases.read_url(), SessionKind::Reader, 1);
        if let Ok(pool) = pool {
            findings.push(salts(&pool).await);
            findings.push(client_addresses(&pool).await);
            pool.close().await;
        }
    }
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

/// Checks the settings of the recording of clicks, and reads their files.
fn clicks_settings(settings: &ClickSettings) -> Vec<Finding> {
    let kafka = match settings.kafka() {
        Ok(None) => {
            let is = "none are recorded (--clicks off)";
            return vec![Finding::ok("clicks", is)];
        }
        Ok(Some(kafka)) => configuration::kafka(&kafka),
        Err(error) => Finding::failed("Kafka", &error),
    };
    let files = match settings.read_files() {
        Ok(_) => Finding::ok("clicks", "the files can be used"),
        Err(error) => Finding::failed("clicks", &error),
    };
    vec![kafka, files]
}

/// Looks for the topic of clicks.
async fn clicks_topic(kafka: &KafkaConfig) -> Finding {
    match clicks::check_kafka(kafka).await {
        Ok(()) => Finding::ok("topic of clicks", kafka.topic.to_string()),
        Err(error) => Finding::failed("topic of clicks", &error),
    }
}

/// Looks for the salt of today: without it, clicks have no visitors.
async fn salts(pool: &PgPool) -> Finding {
    match clicks::has_salt(pool, SystemClock.now().date()).await {
        Ok(true) => Finding::ok("salts of visitors", "there is one for today"),
        Ok(false) => {
            let is = "there is none for today: clicks have no visitors";
            let remedy = "start a projector, which makes the salts, without --clicks off";
            Finding::new("salts of visitors", Severity::Warning, is, remedy)
        }
        Err(error) => Finding::failed("salts of visitors", &error.into()),
    }
}

/// Asks the heartbeats of all recorders: a proxy that is not listed hides the addresses of clients.
async fn client_addresses(pool: &PgPool) -> Finding {
    match clicks::suspicious_recorders(pool).await {
        Ok(0) => Finding::ok(
            "client addresses",
            "no query-api sees the same one again and again",
        ),
        Ok(recorders) => {
            let is = format!(
                "the last 1,000 clicks of {recorders} query-apis have one address each: visitors and countries are wrong"
            );
            let remedy = "name the proxies in --trusted-proxies (TRUSTED_PROXIES), unless this is a load test";
            Finding::new("client addresses", Severity::Warning, is, remedy)
        }
        Err(error) => Finding::failed("client addresses", &error.into()),
    }
}
