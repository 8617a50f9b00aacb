//! `parked`: who is parked and why, another attempt to apply what waits, and what is left out of it.

mod retry;
mod show;
mod skip;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use linkledger_core::{id::AccountId, shard::Position, timestamp};
use serde::Serialize;

use super::{
    Options,
    columns::{Layout, Screen, table},
};
use crate::pipeline::parking::{
    Parking,
    listing::{self, ListedParking},
};

/// What an operator may ask for.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List parked accounts: since when, for which event and why, and how many events wait.
    List(List),
    /// Show which events of an account wait, and which are left out.
    Show(show::Show),
    /// Apply what waits, in order, up to an event that can't be applied still.
    Retry(retry::Retry),
    /// Leave out the event that an account is parked for, for good, and apply what waits behind it.
    Skip(skip::SkipEvent),
}

/// How much of the list to show.
#[derive(Debug, Args)]
pub struct List {
    /// How many rows to show: one for each account and projection.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub limit: u16,
    #[command(flatten)]
    pub options: Options,
}

/// A parked account as an operator sees it.
#[derive(Debug, Serialize)]
struct ShownParking {
    account_id: AccountId,
    projection: &'static str,
    parked_at: String,
    shard: i16,
    position: Position,
    event_type: String,
    reason: &'static str,
    detail: String,
    waiting: i64,
}

#[derive(Serialize)]
struct ShownParkings {
    parked: Vec<ShownParking>,
}

pub(super) async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List(command) => list(command).await,
        Command::Show(command) => show::run(command).await,
        Command::Retry(command) => retry::run(command).await,
        Command::Skip(command) => skip::run(command).await,
    }
}

async fn list(command: List) -> anyhow::Result<()> {
    let pool = command.options.pool().await?;
    let parked = listing::list(&pool, None, command.limit.into())
        .await
        .context("can't read who is parked")?;
    let parked: Vec<_> = parked.into_iter().map(ShownParking::from).collect();
    let text = text_of(&parked);
    command.options.print(&ShownParkings { parked }, &text)
}

impl From<ListedParking> for ShownParking {
    fn from(listed: ListedParking) -> Self {
        let Parking { account, cause } = listed.parking;
        Self {
            account_id: account.account_id,
            projection: account.projection.name(),
            parked_at: timestamp::format(listed.parked_at),
            shard: account.shard.number(),
            position: cause.position,
            event_type: cause.event_type,
            reason: cause.poison.reason.name(),
            detail: cause.poison.detail,
            waiting: listed.waiting,
        }
    }
}

fn text_of(parked: &[ShownParking]) -> String {
    if parked.is_empty() {
        return "No account is parked.".to_owned();
    }
    let columns = [
        ("ACCOUNT", Layout::Text),
        ("PROJECTION", Layout::Text),
        ("SINCE", Layout::OptionalText),
        ("WAITING", Layout::Number),
        ("SHARD", Layout::OptionalNumber),
        ("POSITION", Layout::Number),
        ("WHY", Layout::Text),
    ];
    let row = |it: &ShownParking| {
        vec![
            it.account_id.to_string(),
            it.projection.to_owned(),
            it.parked_at.clone(),
            it.waiting.to_string(),
            it.shard.to_string(),
            it.position.to_string(),
            format!("{}: {}", it.event_type, it.detail),
        ]
    };
    let rows: Vec<_> = parked.iter().map(row).collect();
    table(Screen::of_stdout(), &columns, &rows).join("\n")
}
