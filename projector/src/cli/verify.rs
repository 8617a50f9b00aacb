//! `verify`: compares the read tables with the log, all rows or those of one link or account. With
//! `--repair`, writes the wrong rows again.

mod subject;

use std::{
    collections::BTreeSet,
    io::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::Args;
use linkledger_core::{id::AccountId, link::LinkName, shard::Position};
use linkledger_event_store::SessionKind;
use linkledger_service::{databases::Databases, failure};
use serde::Serialize;
use sqlx::PgPool;

use self::subject::{SubjectOutput, find, rows_table};
use super::{Options, one_or_all, projection_parser};
use crate::{
    cli::OperatorArgs,
    operations::{
        audit::{self, hold},
        number_format::{counted, grouped, per_second},
        verify::{
            self, ComparedColumn, ComparedRow, GenerationTarget, RepairReport, SESSIONS,
            VerificationReport, VerifyFinding, outcome,
            subject::{VerifiedSubject, verify as verify_subject},
        },
    },
    progress::ProgressReport,
    read_models::Projection,
};

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The projection; all of them if none is named.
    #[arg(value_parser = projection_parser())]
    projection: Option<Projection>,
    /// Verify this generation instead of the served one, for example before a rollback.
    #[arg(long, value_name = "NUMBER", requires = "projection")]
    generation: Option<i32>,
    /// Verify only the rows of this link, and show them: its id (lnk_…), slug or short address.
    #[arg(long, conflicts_with_all = ["generation", "account"])]
    link: Option<LinkName>,
    /// Verify only the rows of this account (acc_…).
    #[arg(long, conflicts_with = "generation")]
    account: Option<AccountId>,
    /// Project the wrong rows again, and verify again; without `--link` and `--account` also delete
    /// rows that no event explains.
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    options: Options,
}

/// Result of the command.
#[derive(Debug, Serialize)]
struct VerifyOutput {
    dry_run: bool,
    #[serde(flatten)]
    subject: Option<SubjectOutput>,
    projections: Vec<ProjectionOutput>,
    seconds: f64,
}

/// Result for one projection.
#[derive(Debug, Serialize)]
struct ProjectionOutput {
    /// Position up to which the rows of a link or account were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_up_to: Option<Position>,
    /// Rows of a link before a repair.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    compared_rows: Vec<ComparedRow>,
    /// Verification before a repair.
    #[serde(flatten)]
    found: VerificationReport,
    /// Repair; absent if nothing was repaired.
    #[serde(skip_serializing_if = "Option::is_none")]
    repaired: Option<RepairReport>,
}

impl ProjectionOutput {
    /// Returns the number of compared events; an event that was compared twice counts twice.
    fn events(&self) -> u64 {
        let again = self.repaired.as_ref().map_or(0, |it| it.left.events);
        self.found.events + again
    }

    /// Returns the last verification.
    fn last(&self) -> &VerificationReport {
        self.repaired.as_ref().map_or(&self.found, |it| &it.left)
    }
}

pub(super) async fn run(command: Verify) -> anyhow::Result<()> {
    let begun = Instant::now();
    // One session more, for the lock of the command.
    let repairs = command.repair && !command.operator.dry_run;
    let (options, kind, sessions) = (&command.options, SessionKind::Writer, SESSIONS + 1);
    let databases = if repairs {
        options.databases_for_lock(kind, sessions).await?
    } else {
        options.databases_of(kind, sessions).await?
    };
    let progress = ProgressReport::shown(command.options.json);
    let subject = find(&databases.log, command.link.as_ref(), command.account).await?;
    let subject = subject.as_ref();
    let work = Box::pin(async {
        let mut projections = Vec::new();
        // The lock of the command comes first: no other command swaps generations in between.
        for target in targets(&databases.read, &command).await? {
            projections.push(verify_one(&databases, target, subject, &command, &progress).await?);
        }
        anyhow::Ok(projections)
    });
    let projections = if repairs {
        let id = subject.map(VerifiedSubject::id);
        let operation = audit::OperatorCommand {
            name: command.repair_name(),
            projections: &one_or_all(command.projection),
            subject: id.as_deref(),
            operator: &command.operator.operator(),
            reason: command.operator.reason.as_deref(),
        };
        Box::pin(hold(
            &databases.read,
            &operation,
            work,
            |shown, projection| outcome_of(shown, projection),
        ))
        .await?
    } else {
        work.await?
    };
    drop(progress);
    let subject = match subject {
        Some(subject) => Some(SubjectOutput::read(&databases, subject).await?),
        None => None,
    };
    let output = VerifyOutput {
        dry_run: command.operator.dry_run,
        subject,
        projections,
        seconds: begun.elapsed().as_secs_f64(),
    };
    let text = output.text(begun.elapsed(), command.repair);
    command.options.print(&output, &text)?;
    match output.mismatches() {
        0 => Ok(()),
        _ if repairs => bail!(
            "some rows are still wrong after the repair: the log itself may be wrong, see \
             `command-api log verify`"
        ),
        count => bail!(
            "the read tables are not what the log says: {}; `--repair` mends them",
            mismatches(count)
        ),
    }
}

impl Verify {
    /// Returns the name of a repair for the audit record.
    const fn repair_name(&self) -> &'static str {
        match (&self.link, &self.account) {
            (Some(_), _) => "verify --repair --link",
            (None, Some(_)) => "verify --repair --account",
            (None, None) => "verify --repair",
        }
    }
}

async fn targets(pool: &PgPool, command: &Verify) -> anyhow::Result<Vec<GenerationTarget>> {
    if let (Some(projection), Some(generation)) = (command.projection, command.generation) {
        return Ok(vec![GenerationTarget {
            projection,
            generation,
        }]);
    }
    let mut targets = Vec::new();
    for projection in one_or_all(command.projection) {
        targets.push(verify::served(pool, projection).await?);
    }
    Ok(targets)
}

async fn verify_one(
    databases: &Databases,
    target: GenerationTarget,
    subject: Option<&VerifiedSubject>,
    command: &Verify,
    progress: &ProgressReport,
) -> anyhow::Result<ProjectionOutput> {
    let projection = target.projection;
    let on_progress = |events| progress.advance(events);
    let (applied_up_to, compared_rows, found) = if let Some(subject) = subject {
        let report = verify_subject(databases, target, subject).await?;
        (Some(report.applied_up_to), report.rows, report.found)
    } else {
        let events = verify::event_count(&databases.read, target).await?;
        progress.enter(&format!("verifying {projection}"), events, "events");
        let found = verify::verify_generation(databases, target, &on_progress).await?;
        (None, Vec::new(), found)
    };
    let mut shown = ProjectionOutput {
        applied_up_to,
        compared_rows,
        found,
        repaired: None,
    };
    if command.operator.dry_run {
        return Ok(shown);
    }
    if command.repair && !shown.found.findings.is_empty() {
        if subject.is_none() {
            let events = shown.found.events;
            progress.enter(&format!("repairing {projection}"), events, "events");
        }
        let repaired = verify::repair(databases, target, subject, &shown.found, &on_progress);
        shown.repaired = Some(repaired.await?);
    }
    if subject.is_some() {
        // Alerts are about verifications of all rows.
        return Ok(shown);
    }
    if let Err(error) = outcome::record(&databases.read, shown.last()).await {
        let error = failure::text(&error.into());
        // A role that may only read can verify too.
        let warning =
            format!("warning: the result is not recorded, and no alert shows it: {error}");
        writeln!(std::io::stderr(), "{warning}").context("cannot print a warning")?;
    }
    Ok(shown)
}

/// Returns the outcome of the repair of one projection, as the audit record stores it.
fn outcome_of(
    projections: &[ProjectionOutput],
    projection: Projection,
) -> (audit::OperationOutcome, String) {
    let mut of_it = projections.iter();
    let Some(it) = of_it.find(|it| it.found.projection == projection.name()) else {
        return (audit::OperationOutcome::Done, String::new());
    };
    let detail = match &it.repaired {
        None => "nothing was wrong".to_owned(),
        Some(repaired) => format!("{} repaired", counted(repaired.rows, "row")),
    };
    match it.last().findings.mismatches {
        0 => (audit::OperationOutcome::Done, detail),
        left => {
            let detail = format!("{detail}, {} left", mismatches(left));
            (audit::OperationOutcome::Failed, detail)
        }
    }
}

impl VerifyOutput {
    fn mismatches(&self) -> u64 {
        let left = self.projections.iter().map(ProjectionOutput::last);
        left.map(|report| report.findings.mismatches).sum()
    }

    fn text(&self, took: Duration, is_repair: bool) -> String {
        let mut lines = self
            .subject
            .as_ref()
            .map_or_else(Vec::new, SubjectOutput::lines);
        for output in &self.projections {
            let ProjectionOutput {
                applied_up_to,
                found,
                repaired,
                ..
            } = output;
            lines.extend(found.lines(*applied_up_to));
            if let Some(repaired) = repaired {
                let rows = counted(repaired.rows, "row");
                lines.push(format!("Repaired: {rows}; verified again:"));
                lines.extend(repaired.left.lines(None));
            } else if is_repair && self.dry_run && !found.findings.is_empty() {
                let rows = counted(found.findings.mismatches, "row");
                lines.push(format!("Would repair {rows}; nothing was changed."));
            }
        }
        // After a repair the rows are out of date.
        let unchanged = self.projections.iter().filter(|it| it.repaired.is_none());
        let rows = unchanged.flat_map(|it| &it.compared_rows);
        let rows: Vec<&ComparedRow> = rows.collect();
        if !rows.is_empty() {
            lines.push(String::new());
            lines.extend(rows_table(&rows));
            return lines.join("\n");
        }
        let events: u64 = self.projections.iter().map(ProjectionOutput::events).sum();
        let per_second = counted(per_second(events, took), "event");
        let seconds = took.as_secs_f64();
        lines.push(format!("Verified in {seconds:.1} s ({per_second}/s)."));
        lines.join("\n")
    }
}

impl VerificationReport {
    fn lines(&self, applied_up_to: Option<Position>) -> Vec<String> {
        let (projection, generation) = (self.projection, self.generation);
        let up_to = applied_up_to.map(|it| format!(", applied up to position {}", grouped(it)));
        let up_to = up_to.unwrap_or_default();
        let (events, rows) = (
            counted(self.events, "event"),
            counted(self.rows_expected, "row"),
        );
        let compared =
            format!("`{projection}`, generation {generation}{up_to}: {events} make {rows}");
        let findings = &self.findings;
        if findings.is_empty() {
            return vec![format!("{compared}; nothing is wrong.")];
        }
        let found = mismatches(findings.mismatches);
        let mut lines = vec![format!("{compared}; {found}:")];
        lines.extend(findings.named.iter().map(VerifyFinding::line));
        let more = findings.mismatches - findings.named.len() as u64;
        if more > 0 {
            lines.push(format!("  … and {more} more"));
        }
        let accounts: BTreeSet<AccountId> = findings.named.iter().map(|it| it.account_id).collect();
        if accounts.len() > 1 {
            lines.push(format!(
                "  the listed findings are of {} accounts",
                accounts.len()
            ));
        }
        lines
    }
}

impl VerifyFinding {
    fn line(&self) -> String {
        let (table, kind, account_id) = (self.table, self.kind.name(), self.account_id);
        let row = self.row.as_ref().map(|row| format!(" {row}"));
        let columns: Vec<_> = self.columns.iter().map(ComparedColumn::text).collect();
        let columns = match columns.join(", ") {
            columns if columns.is_empty() => columns,
            columns => format!(" ({columns})"),
        };
        let place = match (self.shard, self.bucket) {
            (Some(shard), Some(bucket)) => format!(
                "shard {shard}, positions {} to {}",
                bucket.first, bucket.last
            ),
            (Some(shard), None) => format!("shard {shard}"),
            (None, _) => "of no existing account".to_owned(),
        };
        let row = row.unwrap_or_default();
        format!("  {table}: {kind} {account_id}{row}{columns}, {place}")
    }
}

fn mismatches(count: u64) -> String {
    match count {
        1 => "1 mismatch".to_owned(),
        count => format!("{count} mismatches"),
    }
}
