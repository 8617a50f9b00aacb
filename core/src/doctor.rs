//! Checks of a Postgres server: made before a process starts, and printed by `doctor`.
//!
//! Each [`Finding`] names the check, its result and the remedy. [`server`] has the checks that
//! refuse a start; [`upkeep`] those of problems that build up slowly.

pub mod configuration;
mod finding;
pub mod pooler;
pub mod rights;
pub mod same_database;
pub mod server;
pub mod snapshot;
pub mod upkeep;

use anyhow::Context as _;
use clap::Args;

use crate::{
    event_store::{self, SessionKind},
    failure, migrations,
};
pub use finding::{Finding, Severity};
use rights::Privilege;

/// Arguments of a `doctor` command.
#[derive(Debug, Args)]
pub struct DoctorArgs<S: Args> {
    /// Settings of the service to check.
    #[command(flatten)]
    pub settings: S,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

impl<S: Args> DoctorArgs<S> {
    /// Prints the findings.
    ///
    /// # Errors
    /// Returns an error if a finding is an error, or if printing fails.
    pub fn report(&self, findings: &[Finding]) -> anyhow::Result<()> {
        finding::report(findings, self.json)
    }
}

/// The database of a process, and the requirements of the process.
pub struct DatabaseRequirements<'a> {
    /// Address of the database.
    pub database_url: &'a str,
    /// Kind of the process's sessions.
    pub kind: SessionKind,
    /// True if the operator accepts a server that can lose events in a crash.
    pub allows_unsafe: bool,
    /// Maximal number of sessions of the process.
    pub connections_max: u32,
    /// Privileges that the process needs.
    pub rights: &'a [Privilege],
    /// The role of `deploy/postgres/roles.sql` that has these privileges.
    pub role: &'static str,
}

/// Runs all checks. A check that fails to run is reported as a finding too.
pub async fn examine(patient: &DatabaseRequirements<'_>) -> Vec<Finding> {
    if let Err(refused) = event_store::check_connection(patient.database_url).await {
        let remedy = "correct --database-url (DATABASE_URL), or start the server";
        return vec![Finding::error("connection", refused.to_string(), remedy)];
    }
    of_server(patient)
        .await
        .unwrap_or_else(|error| vec![Finding::error("server", failure::text(&error), "retry")])
}

async fn of_server(patient: &DatabaseRequirements<'_>) -> anyhow::Result<Vec<Finding>> {
    let pooler = pooler::look(patient.database_url, patient.kind).await?;
    if pooler.verdict == Severity::Error {
        // Stop here: further statements could meet the settings of other clients in a shared
        // session.
        return Ok(vec![pooler]);
    }
    let pool = event_store::pool(patient.database_url, patient.kind, 1)?;
    let facts = server::read(&pool)
        .await
        .context("cannot read the server's settings")?;
    let mut findings = server::judge(&facts, patient.kind, patient.allows_unsafe);
    findings.push(pooler);
    match migrations::check(&pool).await {
        Ok(()) => {
            findings.push(Finding::ok("migrations", "none is pending"));
            let rights = rights::judge(&pool, patient.rights, patient.role).await;
            findings.extend(rights.context("cannot read the rights of this role")?);
        }
        Err(error) => findings.push(Finding::failed("migrations", &error.into())),
    }
    let upkeep = upkeep::look(&pool, patient.connections_max).await;
    findings.extend(upkeep.context("cannot check the upkeep of the server")?);
    pool.close().await;
    Ok(findings)
}

/// Checks the privileges of a separate role that a part of the process uses. An unreachable server
/// is reported as unseen: the connection has a check of its own.
pub async fn rights_of(url: &str, needed: &[Privilege], role: &'static str) -> Vec<Finding> {
    if let Err(refused) = event_store::check_connection(url).await {
        let refused = format!("cannot check the privileges of {role}: {refused}");
        return vec![Finding::new("rights", Severity::Unseen, refused, "")];
    }
    let look = async {
        let pool = event_store::pool(url, SessionKind::Reader, 1)?;
        let findings = rights::judge(&pool, needed, role).await?;
        pool.close().await;
        anyhow::Ok(findings)
    };
    look.await.unwrap_or_else(|error| {
        let error = error.context(format!("cannot check the privileges of {role}"));
        vec![Finding::failed("rights", &error)]
    })
}
