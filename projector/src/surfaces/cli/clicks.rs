//! `clicks`: state of the countings of clicks, pause, resume and recount.

mod recount;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use linkledger_core::{click::Counting, timestamp};
use serde::Serialize;

use super::{OperatorArgs, Options};
use crate::operations::{
    clicks::{self, ClickStatus, CountingStatus, PausedCounting},
    figures::{counted, duration},
    pause::PauseChange,
};

/// Subcommand of `clicks`.
#[derive(Debug, Subcommand)]
pub enum ClicksSubcommand {
    /// Show until when the figures are complete, lag, last batches, lost records and recorders.
    Status(Options),
    /// Pause countings until they are resumed; figures stay as they are, and the topic keeps the clicks.
    Pause(PauseCounting),
    /// Resume paused countings; they catch up.
    Resume(PauseCounting),
    /// Count the clicks of all UTC days since a time again from the topic, and replace the figures in one
    /// transaction. Pauses the countings meanwhile; an end before the commit changes no figure.
    Recount(Box<recount::RecountClicks>),
}

/// Arguments of `clicks pause` and `clicks resume`.
#[derive(Debug, Args)]
pub struct PauseCounting {
    /// Counting: totals or values.
    #[arg(required_unless_present = "all")]
    counting: Option<Counting>,
    /// Both countings.
    #[arg(long, conflicts_with = "counting")]
    all: bool,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    options: Options,
}

/// Countings after the command, or after a dry run as they would be.
#[derive(Serialize)]
struct AllPaused {
    dry_run: bool,
    countings: Vec<PausedCounting>,
}

pub(super) async fn run(command: ClicksSubcommand) -> anyhow::Result<()> {
    match command {
        ClicksSubcommand::Status(options) => {
            let pool = options.databases().await?.read;
            let status = clicks::status(&pool).await;
            let status = status.context("cannot read the state of the countings")?;
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
        let countings = self
            .counting
            .map_or(Counting::ALL.to_vec(), |one| vec![one]);
        let dry_run = self.operator.dry_run;
        let countings = if dry_run {
            let paused = clicks::paused(&pool, &countings).await;
            let paused = paused.context("cannot read which countings are paused")?;
            let paused = paused.into_iter();
            let changes = paused.map(|(counting, paused_at)| PausedCounting {
                counting,
                is_changed: paused_at.is_some() != (change == PauseChange::Pause),
                paused_at,
            });
            changes.collect()
        } else {
            let (operator, reason) = (self.operator.operator(), self.operator.reason.as_deref());
            clicks::change(&pool, &countings, change, &operator, reason).await?
        };
        let text: Vec<String> = countings
            .iter()
            .map(|it| text_of(*it, change, dry_run))
            .collect();
        let paused = AllPaused { dry_run, countings };
        self.options.print(&paused, &text.join("\n"))
    }
}

fn text_of(paused: PausedCounting, change: PauseChange, dry_run: bool) -> String {
    let counting = paused.counting;
    let since = paused.paused_at.map(timestamp::format).unwrap_or_default();
    match (change, paused.is_changed, dry_run) {
        (PauseChange::Pause, true, false) => format!(
            "`{counting}` is paused, and its last batches are finished; `projector clicks resume \
             {counting}` resumes it"
        ),
        (PauseChange::Resume, true, false) => format!("`{counting}` continues within a second"),
        (PauseChange::Pause, true, true) => format!("`{counting}` would be paused"),
        (PauseChange::Resume, true, true) => {
            format!("`{counting}`, paused since {since}, would continue")
        }
        (PauseChange::Pause, false, _) => {
            format!("`{counting}` has been paused since {since} already")
        }
        (PauseChange::Resume, false, _) => format!("`{counting}` is not paused"),
    }
}

/// Returns the lines of the status.
pub(in crate::surfaces::cli) fn lines(status: &ClickStatus) -> Vec<String> {
    let recorders = match status.recorders {
        0 => "clicks: no recorder sends heartbeats: query-api is stopped, runs with --no-clicks, or cannot reach \
              Postgres"
            .to_owned(),
        recorders => format!(
            "clicks: {} alive",
            counted(recorders.unsigned_abs(), "recorder")
        ),
    };
    let countings = status.countings.iter();
    let countings = countings.map(|it| counting_line(it, status.recorders));
    std::iter::once(recorders).chain(countings).collect()
}

fn counting_line(it: &CountingStatus, recorders: i64) -> String {
    let ago = |seconds: Option<f64>| match seconds {
        Some(seconds) => format!("{} ago", duration(seconds)),
        None => "never".to_owned(),
    };
    let complete = match it.complete_until {
        Some(until) if recorders == 0 => format!("complete until {}", timestamp::format(until)),
        Some(_) => format!("complete until {} ago", duration(it.lag_seconds)),
        None => "not complete yet".to_owned(),
    };
    let mut line = format!(
        "clicks, {}: {complete}, read to the end of the topic {}, last batch {}",
        it.counting,
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
