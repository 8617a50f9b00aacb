//! `pause` and `resume`: stop and continue projections, and the counting of clicks.

use anyhow::Context as _;
use clap::Args;
use linkledger_core::timestamp;
use serde::Serialize;

use super::Options;
use crate::{
    cli::OperatorArgs,
    operations::pause::{self, PauseChange, PauseTarget, Paused},
};

/// Arguments of `pause` and `resume`.
#[derive(Debug, Args)]
pub struct Pause {
    /// Projection, or the counting of clicks.
    #[arg(required_unless_present = "all")]
    target: Option<PauseTarget>,
    /// Every projection, and the counting of clicks.
    #[arg(long, conflicts_with = "target")]
    all: bool,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    options: Options,
}

/// Targets after the command, or after a dry run as they would be.
#[derive(Serialize)]
struct AllPaused {
    dry_run: bool,
    targets: Vec<Paused>,
}

pub(super) async fn run(command: Pause, change: PauseChange) -> anyhow::Result<()> {
    let pool = command.options.databases().await?.read;
    let targets = command
        .target
        .map_or(PauseTarget::ALL.to_vec(), |it| vec![it]);
    let OperatorArgs {
        dry_run, reason, ..
    } = &command.operator;
    let dry_run = *dry_run;
    let targets: Vec<Paused> = if dry_run {
        let paused = pause::paused(&pool, &targets).await;
        let paused = paused.context("cannot read what is paused")?;
        let changes = paused.into_iter().map(|(target, paused_at)| Paused {
            target,
            is_changed: paused_at.is_some() != (change == PauseChange::Pause),
            paused_at,
        });
        changes.collect()
    } else {
        let operator = command.operator.operator();
        pause::change(&pool, &targets, change, &operator, reason.as_deref()).await?
    };
    let lines = targets.iter().map(|it| text_of(*it, change, dry_run));
    let text = lines.collect::<Vec<_>>().join("\n");
    let paused = AllPaused { dry_run, targets };
    command.options.print(&paused, &text)
}

fn text_of(paused: Paused, change: PauseChange, dry_run: bool) -> String {
    let target = paused.target.name();
    let since = paused.paused_at.map(timestamp::format).unwrap_or_default();
    match (change, paused.is_changed, dry_run) {
        (PauseChange::Pause, true, false) => format!(
            "`{target}` is paused, and its last batch is finished; `projector resume {target}` resumes it"
        ),
        (PauseChange::Resume, true, false) => format!("`{target}` continues within a second"),
        (PauseChange::Pause, true, true) => format!("`{target}` would be paused"),
        (PauseChange::Resume, true, true) => {
            format!("`{target}`, paused since {since}, would continue")
        }
        (PauseChange::Pause, false, _) => {
            format!("`{target}` has been paused since {since} already")
        }
        (PauseChange::Resume, false, _) => format!("`{target}` is not paused"),
    }
}
