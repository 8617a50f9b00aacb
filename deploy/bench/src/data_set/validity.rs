//! Whether a data set is what the services could have written, by what they verify themselves with.

use clap::Parser;
use linkledger_core::clock::SystemClock;

#[derive(Parser)]
#[command(no_binary_name = true)]
struct CommandApi {
    #[command(subcommand)]
    command: linkledger_command_api::admin::AdminCommand,
}

#[derive(Parser)]
#[command(no_binary_name = true)]
struct Projector {
    #[command(subcommand)]
    command: linkledger_projector::admin::Command,
}

/// Verifies the log and the read tables; both print what they find.
pub(super) async fn check(url: &str) -> anyhow::Result<()> {
    let log = CommandApi::try_parse_from(["log", "verify", "--database-url", url])?;
    Box::pin(linkledger_command_api::admin::run(
        log.command,
        &SystemClock,
    ))
    .await?;
    let tables = Projector::try_parse_from(["verify", "--database-url", url])?;
    Box::pin(linkledger_projector::admin::run(tables.command)).await
}
