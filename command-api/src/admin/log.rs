//! Command `log`: shows events, exports the log, verifies the log, and shows or raises its epoch.

mod epoch;
mod export;
mod shards;
mod show;
mod verify;

use anyhow::bail;
use clap::{Args, Subcommand};

pub use show::ShowLog;

/// Arguments of `log`: a stream to show, or a subcommand.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Log {
    #[command(flatten)]
    show: Option<ShowLog>,
    #[command(subcommand)]
    command: Option<LogSubcommand>,
}

#[derive(Debug, Subcommand)]
enum LogSubcommand {
    /// Write the log as lines of JSON, one for each event, with the same attributes as the records on
    /// the topic.
    ///
    /// Writes to a folder, one file for each shard, and a later run continues after the last line;
    /// or writes one shard to standard output.
    Export(export::Export),
    /// Show the epoch of the log, or raise it after a restore.
    #[command(subcommand)]
    Epoch(epoch::EpochSubcommand),
    /// Check the whole log: positions, versions, payloads, pairs of link and charge, balances against
    /// accounts, slugs, and sealed segments; exit with 1 if anything is wrong.
    ///
    /// May run beside the services. Needs up to 60 bytes of memory for each link.
    Verify(verify::Verify),
}

pub(super) async fn run(log: Log) -> anyhow::Result<()> {
    match (log.command, log.show) {
        (Some(LogSubcommand::Export(export)), _) => export::run(export).await,
        (Some(LogSubcommand::Epoch(command)), _) => epoch::run(command).await,
        (Some(LogSubcommand::Verify(verify)), _) => verify::run(verify).await,
        (None, Some(show)) => show::run(show).await,
        (None, None) => bail!("name an account or a link"),
    }
}
