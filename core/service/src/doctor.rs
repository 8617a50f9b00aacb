//! Checks of a Postgres server: made before a process starts, and printed by `doctor`.
//!
//! Each [`Finding`] names the check, its result and the remedy. [`server`] has the checks that
//! refuse a start; [`upkeep`] those of problems that build up slowly.

pub mod admission;
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
    databases::{DatabaseOf, DatabaseSettings},
    failure,
};
pub use finding::{Finding, Severity};
use linkledger_event_store::{
    SessionKind,
    migrations::{self, Schema},
};
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

/// Requirements of a process on its databases.
#[derive(Clone, Copy)]
pub struct DatabaseRequirements<'a> {
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

/// Examines each database of a process, and compares their logs.
pub async fn examine_each(
    databases: &DatabaseSettings,
    requirements: &DatabaseRequirements<'_>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for database in databases.all() {
        findings.extend(examine(database, requirements).await);
    }
    if findings
        .iter()
        .all(|finding| finding.verdict != Severity::Error)
    {
        findings.push(
            match admission::check_log(databases, requirements.kind).await {
                Ok(()) => Finding::ok("log", "the read tables follow no other log"),
                Err(error) => Finding::failed("log", &error),
            },
        );
    }
    findings
}

/// Runs all checks of one database. A check that fails to run is reported as a finding too.
pub async fn examine(
    database: DatabaseOf<'_>,
    requirements: &DatabaseRequirements<'_>,
) -> Vec<Finding> {
    let schemas: Vec<_> = database.schemas.iter().map(|it| it.name()).collect();
    let is = format!("schema {} at {}", schemas.join(", "), database.address());
    let mut findings = vec![Finding::ok("database", is)];
    if let Err(refused) = linkledger_event_store::check_connection(database.url).await {
        let remedy = "correct --database-url (DATABASE_URL), or start the server";
        findings.push(Finding::error("connection", refused.to_string(), remedy));
        return findings;
    }
    let of_server = of_server(database, requirements).await;
    findings
        .extend(of_server.unwrap_or_else(|error| {
            vec![Finding::error("server", failure::text(&error), "retry")]
        }));
    findings
}

async fn of_server(
    database: DatabaseOf<'_>,
    patient: &DatabaseRequirements<'_>,
) -> anyhow::Result<Vec<Finding>> {
    let pooler = pooler::look(database.url, patient.kind).await?;
    if pooler.verdict == Severity::Error {
        // Stop here: further statements could meet the settings of other clients in a shared
        // session.
        return Ok(vec![pooler]);
    }
    let pool = linkledger_event_store::pool(database.url, patient.kind, 1)?;
    let facts = server::read(&pool)
        .await
        .context("cannot read the server's settings")?;
    let mut findings = server::judge(&facts, patient.kind, patient.allows_unsafe);
    findings.push(pooler);
    match migrations::check(&pool, database.schemas).await {
        Ok(()) => {
            findings.push(Finding::ok("migrations", "none is pending"));
            let needed = rights_in(patient.rights, database.schemas);
            let rights = rights::judge(&pool, &needed, patient.role).await;
            findings.extend(rights.context("cannot read the rights of this role")?);
        }
        Err(error) => findings.push(Finding::failed("migrations", &error.into())),
    }
    let upkeep = upkeep::look(&pool, patient.connections_max).await;
    findings.extend(upkeep.context("cannot check the upkeep of the server")?);
    pool.close().await;
    Ok(findings)
}

/// Returns the privileges on tables of these schemas.
fn rights_in(rights: &[Privilege], schemas: &[Schema]) -> Vec<Privilege> {
    let is_in = |(table, _): &&Privilege| {
        let schema = table.split('.').next();
        schemas.iter().any(|it| Some(it.name()) == schema)
    };
    rights.iter().filter(is_in).copied().collect()
}

/// Checks the privileges of a separate role that a part of the process uses. An unreachable server
/// is reported as unseen: the connection has a check of its own.
pub async fn rights_of(url: &str, needed: &[Privilege], role: &'static str) -> Vec<Finding> {
    if let Err(refused) = linkledger_event_store::check_connection(url).await {
        let refused = format!("cannot check the privileges of {role}: {refused}");
        return vec![Finding::new("rights", Severity::Unseen, refused, "")];
    }
    let look = async {
        let pool = linkledger_event_store::pool(url, SessionKind::Reader, 1)?;
        let findings = rights::judge(&pool, needed, role).await?;
        pool.close().await;
        anyhow::Ok(findings)
    };
    look.await.unwrap_or_else(|error| {
        let error = error.context(format!("cannot check the privileges of {role}"));
        vec![Finding::failed("rights", &error)]
    })
}
