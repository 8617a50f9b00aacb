//! Validity of a data set, checked with the verification commands of the services.

use clap::Parser;
use linkledger_core::clock::SystemClock;

#[derive(Parser)]
#[command(no_binary_name = true)]
struct CommandApiCommand {
    #[command(subcommand)]
    command: linkledger_command_api::admin::AdminCommand,
}

#[derive(Parser)]
#[command(no_binary_name = true)]
struct ProjectorCommand {
    #[command(subcommand)]
    command: linkledger_projector::cli::OperatorSubcommand,
}

/// Verifies the log and the read tables; both commands print their findings.
pub(super) async fn check(url: &str) -> anyhow::Result<()> {
    let log = CommandApiCommand::try_parse_from(["log", "verify", "--database-url", url])?;
    Box::pin(linkledger_command_api::admin::run(
        log.command,
        &SystemClock,
    ))
    .await?;
    let tables = ProjectorCommand::try_parse_from(["verify", "--database-url", url])?;
    Box::pin(linkledger_projector::cli::run(tables.command)).await
}
