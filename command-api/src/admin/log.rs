//! `log`: what has happened, for operators; all of it, for those who want it without Kafka; and
//! whether all of it is as it was written.

mod epoch;
mod export;
mod progress;
mod shards;
mod show;
mod verify;

use anyhow::bail;
use clap::{Args, Subcommand};

pub use show::{ShowLog, ShownEvent, show};

/// A stream is shown, or something is done with the whole log.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Log {
    #[command(flatten)]
    show: Option<ShowLog>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write the history of the log as lines of JSON, an event each, with the attributes of records
    /// on the topic.
    ///
    /// Either to a folder, one file for each shard, where a later run goes on after the last line;
    /// or one shard to standard output.
    Export(export::Export),
    /// Show the epoch of the log, or raise it after a restore.
    #[command(subcommand)]
    Epoch(epoch::Command),
    /// Check the whole log: positions, versions, payloads, pairs of link and charge, balances against
    /// accounts, slugs, and sealed segments; exit with 1 if something is wrong.
    ///
    /// May run beside the services. It takes up to 60 bytes of memory for each link.
    Verify(verify::Verify),
}

pub(super) async fn run(log: Log) -> anyhow::Result<()> {
    match (log.command, log.show) {
        (Some(Command::Export(export)), _) => export::run(export).await,
        (Some(Command::Epoch(command)), _) => epoch::run(command).await,
        (Some(Command::Verify(verify)), _) => verify::run(verify).await,
        (None, Some(show)) => show::run(show).await,
        (None, None) => bail!("name an account or a link"),
    }
}
