//! The command line of command-api.

use std::{io::Write as _, process::ExitCode, sync::Arc};

use clap::{Args, Parser, Subcommand};
use linkledger_command_api::{
    Listeners, admin,
    config::{Config, ListenConfig},
    serve,
};
use linkledger_core::{clock::SystemClock, lifecycle::listen, telemetry};
use tokio_util::sync::CancellationToken;

/// Creates links for credits, and holds the operator's commands on accounts, keys and credits.
///
/// Exit codes: 0 done, 1 not done (standard error says why), 2 the command line is wrong.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service: the write side of the API, and the relay to Kafka.
    Serve(Box<Serve>),
    #[command(flatten)]
    Admin(admin::Command),
}

#[derive(Args)]
struct Serve {
    #[command(flatten)]
    config: Config,
    #[command(flatten)]
    listen: ListenConfig,
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(serve) => run(*serve).await,
        Command::Admin(command) => admin::run(command, &SystemClock).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to do should standard error be closed.
            writeln!(std::io::stderr(), "error: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Serve) -> anyhow::Result<()> {
    let _telemetry = telemetry::init("command-api", &arguments.listen.telemetry, "info")?;
    let listeners = Listeners {
        api: listen(arguments.listen.api_listen).await?,
        internal: listen(arguments.listen.internal_listen).await?,
    };
    let clock = Arc::new(SystemClock);
    serve(arguments.config, clock, listeners, CancellationToken::new()).await
}
