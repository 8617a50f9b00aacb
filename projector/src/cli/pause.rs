//! `pause` and `resume`: stop and continue projections, and the aggregation of clicks.

use anyhow::Context as _;
use clap::Args;
use linkledger_core::timestamp;
use serde::Serialize;

use super::Options;
use crate::{
    cli::OperatorArgs,
    operations::pause::{self, FollowerName, PauseChange, Paused},
};

/// Arguments of `pause` and `resume`.
#[derive(Debug, Args)]
pub struct Pause {
    /// Projection, or the aggregation of clicks.
    #[arg(required_unless_present = "all")]
    follower: Option<FollowerName>,
    /// Every projection, and the aggregation of clicks.
    #[arg(long, conflicts_with = "follower")]
    all: bool,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    options: Options,
}

/// Followers after the command, or after a dry run as they would be.
#[derive(Serialize)]
struct AllPaused {
    dry_run: bool,
    followers: Vec<Paused>,
}

pub(super) async fn run(command: Pause, change: PauseChange) -> anyhow::Result<()> {
    let pool = command.options.databases().await?.read;
    let followers = command
        .follower
        .map_or(FollowerName::ALL.to_vec(), |it| vec![it]);
    let OperatorArgs {
        dry_run, reason, ..
    } = &command.operator;
    let dry_run = *dry_run;
    let followers: Vec<Paused> = if dry_run {
        let paused = pause::paused(&pool, &followers).await;
        let paused = paused.context("cannot read what is paused")?;
        let changes = paused.into_iter().map(|(follower, paused_at)| Paused {
            follower,
            is_changed: paused_at.is_some() != (change == PauseChange::Pause),
            paused_at,
        });
        changes.collect()
    } else {
        let operator = command.operator.operator();
        pause::change(&pool, &followers, change, &operator, reason.as_deref()).await?
    };
    let lines = followers.iter().map(|it| text_of(*it, change, dry_run));
    let text = lines.collect::<Vec<_>>().join("\n");
    let paused = AllPaused { dry_run, followers };
    command.options.print(&paused, &text)
}

fn text_of(paused: Paused, change: PauseChange, dry_run: bool) -> String {
    let follower = paused.follower.name();
    let since = paused.paused_at.map(timestamp::format).unwrap_or_default();
    match (change, paused.is_changed, dry_run) {
        (PauseChange::Pause, true, false) => format!(
            "`{follower}` is paused, and its last batch is finished; `projector resume {follower}` resumes it"
        ),
        (PauseChange::Resume, true, false) => format!("`{follower}` continues within a second"),
        (PauseChange::Pause, true, true) => format!("`{follower}` would be paused"),
        (PauseChange::Resume, true, true) => {
            format!("`{follower}`, paused since {since}, would continue")
        }
        (PauseChange::Pause, false, _) => {
            format!("`{follower}` has been paused since {since} already")
        }
        (PauseChange::Resume, false, _) => format!("`{follower}` is not paused"),
    }
}
