//! `check-config` checks the settings alone; `doctor` also checks the database behind them.

mod clicks_topic;
mod webhooks;

use anyhow::Context as _;
use linkledger_event_store::SessionKind;
use linkledger_service::{
    databases::DatabaseSettings,
    doctor::{self, DatabaseRequirements, Finding, Severity, configuration, rights::Privilege},
};

pub use self::webhooks::{check_webhooks_config, examine_webhooks};
use crate::{admin_routes, clicks, config::ProjectorSettings, operations::status};

/// Sample of the rights that the service needs: older grants lack some of them.
const RIGHTS: [Privilege; 19] = [
    ("event_store.log_meta", "SELECT (record_key)"),
    ("event_store.log_meta", "SELECT (click_record_key)"),
    ("event_store.events", "SELECT"),
    ("event_store.admin_keys", "SELECT"),
    ("event_store.relay_cursors", "SELECT"),
    ("read_model.checkpoints", "UPDATE"),
    ("read_model.followed_log", "SELECT"),
    ("read_model.links", "INSERT"),
    ("read_model.links", "DELETE"),
    ("read_model.credit_entries", "INSERT"),
    ("read_model.redirect_changes", "INSERT"),
    ("read_model.claims", "UPDATE"),
    ("read_model.operations", "INSERT"),
    ("clicks.positions", "UPDATE"),
    ("clicks.positions", "UPDATE (paused_at)"),
    ("clicks.sequences", "INSERT"),
    ("clicks.link_values", "INSERT"),
    ("clicks.first_clicks", "INSERT"),
    ("clicks.salts", "DELETE"),
];

/// Checks the settings without a connection.
pub fn check_config(ProjectorSettings { config, listen }: &ProjectorSettings) -> Vec<Finding> {
    let databases = config.databases.all();
    let addresses = databases.iter().map(|it| it.url);
    let mut findings: Vec<Finding> = addresses.flat_map(configuration::database).collect();
    findings.push(configuration::kafka(&config.kafka));
    findings.push(configuration::telemetry(&listen.telemetry));
    findings
}

/// Checks the settings, the database and the read models.
pub async fn examine(settings: &ProjectorSettings) -> Vec<Finding> {
    let config = &settings.config;
    let counts_clicks = config.clicks.are_on();
    // The retention continues where clicks are switched off.
    let of_clicks = if counts_clicks {
        clicks::CONNECTIONS_MAX
    } else {
        1
    };
    let of_admin_api = match settings.listen.admin_listen {
        Some(_) => admin_routes::CONNECTIONS_MAX,
        None => 0,
    };
    let requirements = DatabaseRequirements {
        kind: SessionKind::Projector,
        allows_unsafe: config.allow_unsafe_postgres,
        connections_max: config.database_pool_size + of_admin_api + of_clicks,
        rights: &RIGHTS,
        role: "linkledger_projector",
    };
    let mut findings = check_config(settings);
    let of_databases = doctor::examine_each(&config.databases, &requirements).await;
    let have_schemas = of_databases
        .iter()
        .filter(|it| it.check == "migrations" && it.verdict == Severity::Ok);
    let have_schemas = have_schemas.count() == config.databases.all().len();
    findings.extend(of_databases);
    if counts_clicks {
        findings.push(clicks_topic::examine(config).await);
    }
    if have_schemas {
        match read_models(&config.databases).await {
            Ok(of_read_models) => findings.extend(of_read_models),
            Err(error) => findings.push(Finding::failed("read models", &error)),
        }
    }
    findings
}

/// Returns the findings of `projector status`.
async fn read_models(databases: &DatabaseSettings) -> anyhow::Result<Vec<Finding>> {
    let pools = databases.pools(SessionKind::Reader, 1)?;
    let status = status::collect(&pools)
        .await
        .context("cannot read the status")?;
    pools.close().await;
    let finding = |it: &String| Finding::new("read models", Severity::Warning, it, "");
    Ok(if status.findings.is_empty() {
        vec![Finding::ok(
            "read models",
            "no finding waits for an operator",
        )]
    } else {
        status.findings.iter().map(finding).collect()
    })
}
