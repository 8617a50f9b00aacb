//! The command line of the projector.

use std::{io::Write as _, process::ExitCode};

use clap::{Args, Parser};
use linkledger_core::{lifecycle, telemetry};
use linkledger_projector::{Config, Listeners, admin, config::ListenConfig, serve};
use tokio_util::sync::CancellationToken;

/// Keeps the read models of linkledger up to date with its event log.
///
/// Exit codes: 0 done, 1 not done (standard error says why), 2 the command line is wrong.
#[derive(Parser)]
#[command(version)]
enum Cli {
    /// Run the service: apply events as they come.
    Run(Box<Run>),
    #[command(flatten)]
    Admin(admin::Command),
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    config: Config,
    #[command(flatten)]
    listen: ListenConfig,
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Cli::parse() {
        Cli::Run(command) => run(command.config, command.listen).await,
        Cli::Admin(command) => admin::run(command).await,
    };
    if let Err(error) = outcome {
        // Nothing is left to do should standard error be closed.
        writeln!(std::io::stderr(), "error: {error:#}").ok();
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn run(config: Config, listen: ListenConfig) -> anyhow::Result<()> {
    let _telemetry = telemetry::init("projector", &listen.telemetry, "info")?;
    let internal = lifecycle::listen(listen.internal_listen).await?;
    serve(config, Listeners { internal }, CancellationToken::new()).await
}
