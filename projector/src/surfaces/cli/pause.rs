//! `pause` and `resume`: stop and continue projections.

use anyhow::Context as _;
use clap::Args;
use linkledger_core::timestamp;
use serde::Serialize;

use super::{Options, Selection};
use crate::{
    operations::pause::{self, PauseChange, Paused},
    surfaces::cli::OperatorArgs,
};

/// Arguments of `pause` and `resume`.
#[derive(Debug, Args)]
pub struct Pause {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    options: Options,
}

/// Projections after the command, or after a dry run as they would be.
#[derive(Serialize)]
struct AllPaused {
    dry_run: bool,
    projections: Vec<Paused>,
}

pub(super) async fn run(command: Pause, change: PauseChange) -> anyhow::Result<()> {
    let pool = command.options.databases().await?.read;
    let projections = command.selection.projections();
    let OperatorArgs {
        dry_run, reason, ..
    } = &command.operator;
    let dry_run = *dry_run;
    let projections: Vec<Paused> = if dry_run {
        let paused = pause::paused(&pool, &projections).await;
        let paused = paused.context("cannot read which projections are paused")?;
        let changes = paused.into_iter().map(|(projection, paused_at)| Paused {
            projection,
            is_changed: paused_at.is_some() != (change == PauseChange::Pause),
            paused_at,
        });
        changes.collect()
    } else {
        let operator = command.operator.operator();
        pause::change(&pool, &projections, change, &operator, reason.as_deref()).await?
    };
    let lines = projections.iter().map(|it| text_of(*it, change, dry_run));
    let text = lines.collect::<Vec<_>>().join("\n");
    let paused = AllPaused {
        dry_run,
        projections,
    };
    command.options.print(&paused, &text)
}

fn text_of(paused: Paused, change: PauseChange, dry_run: bool) -> String {
    let projection = paused.projection;
    let since = paused.paused_at.map(timestamp::format).unwrap_or_default();
    match (change, paused.is_changed, dry_run) {
        (PauseChange::Pause, true, false) => format!(
            "`{projection}` is paused, and its last batch is finished; `projector resume \
             {projection}` resumes it"
        ),
        (PauseChange::Resume, true, false) => format!("`{projection}` continues within a second"),
        (PauseChange::Pause, true, true) => format!("`{projection}` would be paused"),
        (PauseChange::Resume, true, true) => {
            format!("`{projection}`, paused since {since}, would continue")
        }
        (PauseChange::Pause, false, _) => {
            format!("`{projection}` has been paused since {since} already")
        }
        (PauseChange::Resume, false, _) => format!("`{projection}` is not paused"),
    }
}
