//! Checks of a Postgres server: made before a process starts, and printed by `doctor`.
//!
//! Each [`Finding`] names the check, its result and the remedy. [`server`] has the checks that
//! refuse a start; [`upkeep`] those of problems that build up slowly.

pub mod configuration;
pub mod pooler;
pub mod rights;
pub mod same_database;
pub mod server;
pub mod snapshot;
pub mod upkeep;

use std::{fmt::Write as _, io::Write as _};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Serialize;

use crate::{
    event_store::{self, SessionKind},
    failure, migrations,
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
        report(findings, self.json)
    }
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// No action is needed.
    Ok,
    /// The check needs rights that this role lacks, or information from another machine.
    Unseen,
    /// The process works, but the cause should be fixed.
    Warning,
    /// The cause must be fixed.
    Error,
}

impl Severity {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unseen => "unseen",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the check.
    pub check: &'static str,
    /// Severity of the finding.
    pub verdict: Severity,
    /// Observed state.
    pub is: String,
    /// Remedy; empty if no action is needed.
    pub remedy: String,
}

impl Finding {
    /// Returns a finding without need for action.
    pub fn ok(check: &'static str, is: impl Into<String>) -> Self {
        Self::new(check, Severity::Ok, is, "")
    }

    /// Returns a finding with its severity and remedy.
    pub fn new(
        check: &'static str,
        verdict: Severity,
        is: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            check,
            verdict,
            is: is.into(),
            remedy: remedy.into(),
        }
    }

    /// Returns the name, the state and the remedy in one line.
    pub fn sentence(&self) -> String {
        let Self {
            check, is, remedy, ..
        } = self;
        if remedy.is_empty() {
            format!("{check}: {is}")
        } else {
            format!("{check}: {is}: {remedy}")
        }
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
    let error = |check, is: String, remedy| vec![Finding::new(check, Severity::Error, is, remedy)];
    if let Err(refused) = event_store::check_connection(patient.database_url).await {
        let remedy = "mend --database-url (DATABASE_URL), or start the server";
        return error("connection", refused.to_string(), remedy);
    }
    of_server(patient)
        .await
        .unwrap_or_else(|failed| error("server", failure::text(&failed), "ask again"))
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
        Err(error) => {
            let error = failure::text(&error.into());
            findings.push(Finding::new("migrations", Severity::Error, error, ""));
        }
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
        let error = format!(
            "cannot check the privileges of {role}: {}",
            failure::text(&error)
        );
        vec![Finding::new("rights", Severity::Error, error, "")]
    })
}

#[derive(Serialize)]
struct DoctorReport<'a> {
    ok: bool,
    findings: &'a [Finding],
}

/// Prints the findings as text or as one JSON object. Returns an error if a finding is an error.
fn report(findings: &[Finding], json: bool) -> anyhow::Result<()> {
    let errors = findings
        .iter()
        .filter(|finding| finding.verdict == Severity::Error);
    let errors = errors.count();
    let text = if json {
        let ok = errors == 0;
        serde_json::to_string(&DoctorReport { ok, findings })
            .context("cannot serialize the result")?
    } else {
        text(findings)
    };
    writeln!(std::io::stdout(), "{text}").context("cannot print the result")?;
    ensure!(errors == 0, "{errors} of the findings above must be fixed");
    Ok(())
}

fn text(findings: &[Finding]) -> String {
    let width = findings
        .iter()
        .map(|finding| finding.check.len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let Finding { check, is, .. } = finding;
        let verdict = finding.verdict.word();
        write!(text, "{verdict:7}  {check:width$}  {is}").expect("writing to a string");
        if !finding.remedy.is_empty() {
            let indent = width + 11;
            write!(text, "\n{:indent$}→ {}", "", finding.remedy).expect("writing to a string");
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}
