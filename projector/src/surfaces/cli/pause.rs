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

/// State of a projection after the command, or after a dry run as it would be.
#[derive(Debug, Serialize)]
struct Shown {
    projection: &'static str,
    changed: bool,
    paused_at: Option<String>,
    #[serde(skip)]
    text: String,
}

#[derive(Serialize)]
struct AllShown {
    dry_run: bool,
    projections: Vec<Shown>,
}

pub(super) async fn run(command: Pause, change: PauseChange) -> anyhow::Result<()> {
    let pool = command.options.pool().await?;
    let projections = command.selection.projections();
    let OperatorArgs {
        dry_run, reason, ..
    } = &command.operator;
    let dry_run = *dry_run;
    let paused = if dry_run {
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
    let projections = paused.iter().map(|it| Shown::of(it, change, dry_run));
    let projections: Vec<Shown> = projections.collect();
    let lines: Vec<&str> = projections.iter().map(|it| it.text.as_str()).collect();
    let text = lines.join("\n");
    let shown = AllShown {
        dry_run,
        projections,
    };
    command.options.print(&shown, &text)
}

impl Shown {
    fn of(paused: &Paused, change: PauseChange, dry_run: bool) -> Self {
        let projection = paused.projection.name();
        let paused_at = paused.paused_at.map(timestamp::format);
        let since = paused_at.as_deref().unwrap_or_default();
        let text = match (change, paused.is_changed, dry_run) {
            (PauseChange::Pause, true, false) => format!(
                "`{projection}` is paused, and its last batch is finished; `projector resume \
                 {projection}` lets it go on"
            ),
            (PauseChange::Resume, true, false) => {
                format!("`{projection}` continues within a second")
            }
            (PauseChange::Pause, true, true) => format!("`{projection}` would be paused"),
            (PauseChange::Resume, true, true) => {
                format!("`{projection}`, paused since {since}, would continue")
            }
            (PauseChange::Pause, false, _) => {
                format!("`{projection}` has been paused since {since} already")
            }
            (PauseChange::Resume, false, _) => format!("`{projection}` is not paused"),
        };
        Self {
            projection,
            changed: paused.is_changed,
            paused_at,
            text,
        }
    }
}
