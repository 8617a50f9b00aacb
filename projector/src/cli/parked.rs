//! `parked`: lists parked accounts, retries their events, and skips an event.

mod retry;
mod show;
mod skip;

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use linkledger_core::timestamp;

use super::{
    Options,
    columns::{Layout, Screen, table},
};
use crate::{
    operations::parked,
    pipeline::parking::{Parking, listing::ListedParking},
};

/// Subcommand of `parked`.
#[derive(Debug, Subcommand)]
pub enum ParkedSubcommand {
    /// List parked accounts with the event, the reason, and the number of waiting events.
    List(List),
    /// Show the waiting and the skipped events of an account.
    Show(show::Show),
    /// Apply the waiting events in order, up to an event that still cannot be applied.
    Retry(retry::Retry),
    /// Permanently skip the event that blocks a parked account, then apply the later ones.
    Skip(skip::SkipEvent),
}

/// Arguments of `parked list`.
#[derive(Debug, Args)]
pub struct List {
    /// Number of rows to show: one for each account and projection.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub limit: u16,
    #[command(flatten)]
    pub options: Options,
}

pub(super) async fn run(command: ParkedSubcommand) -> anyhow::Result<()> {
    match command {
        ParkedSubcommand::List(command) => list(command).await,
        ParkedSubcommand::Show(command) => show::run(command).await,
        ParkedSubcommand::Retry(command) => retry::run(command).await,
        ParkedSubcommand::Skip(command) => skip::run(command).await,
    }
}

async fn list(command: List) -> anyhow::Result<()> {
    let pool = command.options.databases().await?.read;
    let parked = parked::list(&pool, None, command.limit.into()).await?;
    let text = text_of(&parked);
    let parked = BTreeMap::from([("parked", parked)]);
    command.options.print(&parked, &text)
}

fn text_of(parked: &[ListedParking]) -> String {
    if parked.is_empty() {
        return "No account is parked.".to_owned();
    }
    let columns = [
        ("ACCOUNT", Layout::Text),
        ("PROJECTION", Layout::Text),
        ("SINCE", Layout::OptionalText),
        ("EVENTS WAITING", Layout::Number),
        ("SHARD", Layout::OptionalNumber),
        ("POSITION", Layout::Number),
        ("WHY", Layout::Text),
    ];
    let rows = parked.iter().map(|it| {
        let Parking { account, cause } = &it.parking;
        vec![
            account.account_id.to_string(),
            account.projection.to_string(),
            timestamp::format(it.parked_at),
            it.waiting.to_string(),
            account.shard.to_string(),
            cause.position.to_string(),
            format!("{}: {}", cause.event_type, cause.poison.detail),
        ]
    });
    table(Screen::of_stdout(), &columns, rows).join("\n")
}
