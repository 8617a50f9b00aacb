//! `check-config` checks the settings alone; `doctor` also checks the database behind them.

use anyhow::Context as _;
use linkledger_core::{
    doctor::{self, DatabaseRequirements, Finding, Severity, configuration, rights::Privilege},
    event_store::{self, SessionKind},
    migrations,
};

use crate::{config::Settings, operations::status, surfaces::console};

/// Sample of the rights that the service needs: older grants lack some of them.
const RIGHTS: [Privilege; 10] = [
    ("event_store.log_meta", "SELECT"),
    ("event_store.events", "SELECT"),
    ("event_store.accounts", "SELECT"),
    ("event_store.relay_cursors", "SELECT"),
    ("read_model.checkpoints", "UPDATE"),
    ("read_model.links", "INSERT"),
    ("read_model.links", "DELETE"),
    ("read_model.credit_entries", "INSERT"),
    ("read_model.redirect_changes", "INSERT"),
    ("read_model.tenures", "UPDATE"),
];

/// Checks the settings without a connection.
pub fn check_config(Settings { config, listen }: &Settings) -> Vec<Finding> {
    let mut findings = configuration::database(config.database_url.reveal());
    findings.push(configuration::kafka(&config.kafka));
    findings.push(configuration::telemetry(&listen.telemetry));
    findings
}

/// Checks the settings, the database and the read models.
pub async fn examine(settings: &Settings) -> Vec<Finding> {
    let config = &settings.config;
    let database_url = config.database_url.reveal();
    let patient = DatabaseRequirements {
        database_url,
        kind: SessionKind::Projector,
        allows_unsafe: config.allow_unsafe_postgres,
        connections_max: config.connections_max + console::CONNECTIONS_MAX,
        rights: &RIGHTS,
        role: "linkledger_projector",
    };
    let mut findings = check_config(settings);
    let of_database = doctor::examine(&patient).await;
    let has_answered = of_database
        .iter()
        .any(|it| it.check == "migrations" && it.verdict == Severity::Ok);
    findings.extend(of_database);
    if has_answered {
        match read_models(database_url).await {
            Ok(of_read_models) => findings.extend(of_read_models),
            Err(error) => findings.push(Finding::failed("read models", &error)),
        }
    }
    findings
}

/// Returns the findings of `projector status`.
async fn read_models(database_url: &str) -> anyhow::Result<Vec<Finding>> {
    let pool = event_store::pool(database_url, SessionKind::Reader, 1)?;
    migrations::check(&pool).await?;
    let status = status::collect(&pool)
        .await
        .context("cannot read the status")?;
    pool.close().await;
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
