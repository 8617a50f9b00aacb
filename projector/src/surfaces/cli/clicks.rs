//! `clicks`: state of the counting of clicks, pause, resume and recount.

mod recount;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use linkledger_core::timestamp;
use serde::Serialize;
use time::OffsetDateTime;

use super::{OperatorArgs, Options};
use crate::operations::{
    clicks::{self, ClickStatus, PausedCounting},
    figures::{counted, duration},
    pause::PauseChange,
};

/// Subcommand of `clicks`.
#[derive(Debug, Subcommand)]
pub enum ClicksSubcommand {
    /// Show until when the figures are complete, lag, last batch, lost records and recorders.
    Status(Options),
    /// Pause the counting until it is resumed; figures stay as they are, and the topic keeps the clicks.
    Pause(PauseCounting),
    /// Resume the paused counting; it catches up.
    Resume(PauseCounting),
    /// Count the clicks of all UTC days since a time again from the topic, and replace the figures in one
    /// transaction, for which the counting waits. An end before the commit changes no figure.
    Recount(Box<recount::RecountClicks>),
}

/// Arguments of `clicks pause` and `clicks resume`.
#[derive(Debug, Args)]
pub struct PauseCounting {
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    options: Options,
}

/// The counting after the command, or after a dry run as it would be.
#[derive(Serialize)]
struct PauseReport {
    dry_run: bool,
    /// True if the command changed the state.
    changed: bool,
    /// Start of the pause; absent if not paused.
    #[serde(serialize_with = "timestamp::serialize")]
    paused_at: Option<OffsetDateTime>,
}

pub(super) async fn run(command: ClicksSubcommand) -> anyhow::Result<()> {
    match command {
        ClicksSubcommand::Status(options) => {
            let pool = options.databases().await?.read;
            let status = clicks::status(&pool).await;
            let status = status.context("cannot read the state of the counting of clicks")?;
            options.print(&status, &lines(&status).join("\n"))
        }
        ClicksSubcommand::Pause(command) => command.run(PauseChange::Pause).await,
        ClicksSubcommand::Resume(command) => command.run(PauseChange::Resume).await,
        ClicksSubcommand::Recount(command) => command.run().await,
    }
}

impl PauseCounting {
    async fn run(self, change: PauseChange) -> anyhow::Result<()> {
        let pool = self.options.databases().await?.read;
        let dry_run = self.operator.dry_run;
        let counting = if dry_run {
            let paused_at = clicks::paused_at(&pool).await;
            let paused_at = paused_at.context("cannot read whether the counting is paused")?;
            PausedCounting {
                is_changed: paused_at.is_some() != (change == PauseChange::Pause),
                paused_at,
            }
        } else {
            let (operator, reason) = (self.operator.operator(), self.operator.reason.as_deref());
            clicks::change(&pool, change, (&operator, reason)).await?
        };
        let report = PauseReport {
            dry_run,
            changed: counting.is_changed,
            paused_at: counting.paused_at,
        };
        self.options.print(&report, &text_of(&report, change))
    }
}

fn text_of(report: &PauseReport, change: PauseChange) -> String {
    let since = report.paused_at.map(timestamp::format).unwrap_or_default();
    match (change, report.changed, report.dry_run) {
        (PauseChange::Pause, true, false) => {
            "the counting of clicks is paused, and its last batches are finished; `projector clicks resume` resumes it"
                .to_owned()
        }
        (PauseChange::Resume, true, false) => {
            "the counting of clicks continues within a second".to_owned()
        }
        (PauseChange::Pause, true, true) => "the counting of clicks would be paused".to_owned(),
        (PauseChange::Resume, true, true) => {
            format!("the counting of clicks, paused since {since}, would continue")
        }
        (PauseChange::Pause, false, _) => {
            format!("the counting of clicks has been paused since {since} already")
        }
        (PauseChange::Resume, false, _) => "the counting of clicks is not paused".to_owned(),
    }
}

/// Returns the lines of the status.
pub(in crate::surfaces::cli) fn lines(status: &ClickStatus) -> [String; 2] {
    let recorders = match status.recorders {
        0 => "clicks: no recorder sends heartbeats: query-api is stopped, runs with --no-clicks, or cannot reach \
              Postgres"
            .to_owned(),
        recorders => format!(
            "clicks: {} alive",
            counted(recorders.unsigned_abs(), "recorder")
        ),
    };
    [recorders, counting_line(status)]
}

fn counting_line(it: &ClickStatus) -> String {
    let ago = |seconds: Option<f64>| match seconds {
        Some(seconds) => format!("{} ago", duration(seconds)),
        None => "never".to_owned(),
    };
    let complete = match it.complete_until {
        Some(until) if it.recorders == 0 => format!("complete until {}", timestamp::format(until)),
        Some(_) => format!("complete until {} ago", duration(it.lag_seconds)),
        None => "not complete yet".to_owned(),
    };
    let mut line = format!(
        "clicks: {complete}, read to the end of the topic {}, last batch {}",
        ago(it.read_to_end_seconds_ago),
        ago(it.last_batch_seconds_ago)
    );
    if it.missing > 0 {
        let missing = counted(it.missing.unsigned_abs(), "record");
        line.extend([", ", &missing, " lost"]);
    }
    if let Some(since) = it.paused_at {
        line.extend([", paused since ", &timestamp::format(since)]);
        let by = it.paused_by.iter().flat_map(|operator| [" by ", operator]);
        let reason = it.pause_reason.iter().flat_map(|reason| [": ", reason]);
        line.extend(by.chain(reason));
    }
    line
}
