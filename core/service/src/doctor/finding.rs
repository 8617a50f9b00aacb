//! Findings of checks, and their report as text or JSON.

use std::{fmt::Write as _, io::Write as _};

use anyhow::{Context as _, ensure};
use serde::Serialize;

use crate::failure;

linkledger_core::named_enum! {
    /// Severity of a finding.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Severity {
        /// No action is needed.
        Ok = "ok",
        /// The check needs rights that this role lacks, or information from another machine.
        Unseen = "unseen",
        /// The process works, but the cause should be fixed.
        Warning = "warning",
        /// The cause must be fixed.
        Error = "error",
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

    /// Returns a finding whose cause must be fixed.
    pub fn error(check: &'static str, is: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(check, Severity::Error, is, remedy)
    }

    /// Returns a finding of a failed check.
    pub fn failed(check: &'static str, error: &anyhow::Error) -> Self {
        Self::error(check, failure::text(error), "")
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

#[derive(Serialize)]
struct DoctorReport<'a> {
    ok: bool,
    findings: &'a [Finding],
}

/// Prints the findings as text or as one JSON object. Returns an error if a finding is an error.
pub(super) fn report(findings: &[Finding], json: bool) -> anyhow::Result<()> {
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
        let verdict = finding.verdict.name();
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
