//! What a process looks at before it works on a Postgres server, and what `doctor` shows of it: each
//! finding with what it is, whether that is well, and what to do.
//!
//! [`server`] has what a process refuses to start on; [`upkeep`] what makes it slow in time.

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
use rights::Right;

/// Whose settings are looked at, and how that is told.
#[derive(Debug, Args)]
pub struct Check<S: Args> {
    /// Those of the service.
    #[command(flatten)]
    pub settings: S,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
}

impl<S: Args> Check<S> {
    /// Prints the findings.
    ///
    /// # Errors
    /// When one of them is an error, or they can't be printed.
    pub fn report(&self, findings: &[Finding]) -> anyhow::Result<()> {
        report(findings, self.json)
    }
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It can't be seen from here, or with these rights.
    Unseen,
    /// It works, and should be mended.
    Warning,
    /// It must be mended.
    Error,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unseen => "unseen",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// Whether it is well.
    pub verdict: Verdict,
    /// How it is.
    pub is: String,
    /// What to do about it; empty if nothing.
    pub remedy: String,
}

impl Finding {
    /// All is well.
    pub fn ok(check: &'static str, is: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, is, "")
    }

    /// Something is not.
    pub fn new(
        check: &'static str,
        verdict: Verdict,
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

    /// How it is, and what to do, in one line.
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

/// The database of a process, and what it needs of it.
pub struct Patient<'a> {
    /// Its address.
    pub database_url: &'a str,
    /// How the process's sessions behave.
    pub kind: SessionKind,
    /// Whether the log need not survive a crash.
    pub allows_unsafe: bool,
    /// Most sessions of the process.
    pub connections_max: u32,
    /// What it reads and writes.
    pub rights: &'a [Right],
    /// The role of `deploy/postgres/roles.sql` that has these rights.
    pub role: &'static str,
}

/// Looks at all of it; what can't be asked is a finding as well.
pub async fn examine(patient: &Patient<'_>) -> Vec<Finding> {
    let error = |check, is: String, remedy| vec![Finding::new(check, Verdict::Error, is, remedy)];
    if let Err(refused) = event_store::check_connection(patient.database_url).await {
        let remedy = "mend --database-url (DATABASE_URL), or start the server";
        return error("connection", refused.to_string(), remedy);
    }
    of_server(patient)
        .await
        .unwrap_or_else(|failed| error("server", failure::text(&failed), "ask again"))
}

async fn of_server(patient: &Patient<'_>) -> anyhow::Result<Vec<Finding>> {
    let pooler = pooler::look(patient.database_url, patient.kind).await?;
    if pooler.verdict == Verdict::Error {
        // Statements may meet what others have left in a session.
        return Ok(vec![pooler]);
    }
    let pool = event_store::pool(patient.database_url, patient.kind, 1)?;
    let facts = server::read(&pool)
        .await
        .context("can't read the server's settings")?;
    let mut findings = server::judge(&facts, patient.kind, patient.allows_unsafe);
    findings.push(pooler);
    match migrations::check(&pool).await {
        Ok(()) => {
            findings.push(Finding::ok("migrations", "none is pending"));
            let rights = rights::judge(&pool, patient.rights, patient.role).await;
            findings.extend(rights.context("can't read the rights of this role")?);
        }
        Err(error) => {
            let error = failure::text(&error.into());
            findings.push(Finding::new("migrations", Verdict::Error, error, ""));
        }
    }
    let upkeep = upkeep::look(&pool, patient.connections_max).await;
    findings.extend(upkeep.context("can't read how the server is kept")?);
    pool.close().await;
    Ok(findings)
}

/// Whether a role of its own for a part of the process suffices. That its server can't be reached is
/// for others to tell.
pub async fn rights_of(url: &str, needed: &[Right], role: &'static str) -> Vec<Finding> {
    if let Err(refused) = event_store::check_connection(url).await {
        let refused = format!("can't read those of {role}: {refused}");
        return vec![Finding::new("rights", Verdict::Unseen, refused, "")];
    }
    let look = async {
        let pool = event_store::pool(url, SessionKind::Reader, 1)?;
        let findings = rights::judge(&pool, needed, role).await?;
        pool.close().await;
        anyhow::Ok(findings)
    };
    look.await.unwrap_or_else(|error| {
        let error = format!("can't read those of {role}: {}", failure::text(&error));
        vec![Finding::new("rights", Verdict::Error, error, "")]
    })
}

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    findings: &'a [Finding],
}

/// For people, or as one JSON object.
fn report(findings: &[Finding], json: bool) -> anyhow::Result<()> {
    let errors = findings.iter().filter(|it| it.verdict == Verdict::Error);
    let errors = errors.count();
    let text = if json {
        let ok = errors == 0;
        serde_json::to_string(&Report { ok, findings }).context("can't write the result")?
    } else {
        text(findings)
    };
    writeln!(std::io::stdout(), "{text}").context("can't print the result")?;
    ensure!(errors == 0, "{errors} of these must be mended");
    Ok(())
}

fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|it| it.check.len()).max().unwrap_or(0);
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
