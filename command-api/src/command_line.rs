//! The command line of the program `command-api`.

use std::{io::Write as _, process::ExitCode, sync::Arc};

use crate::{
    CommandApiListeners, admin,
    config::{CommandApiInternalListen, CommandApiSettings},
    doctor, serve,
};
use clap::{Parser, Subcommand};
use linkledger_core::{
    clock::SystemClock,
    doctor::DoctorArgs,
    failure,
    lifecycle::{health, listen},
    settings, telemetry,
};
use tokio_util::sync::CancellationToken;

/// Creates links for credits, and holds the operator's commands on accounts, keys and credits.
///
/// Exit codes: 0 done, 1 not done (standard error says why), 2 the command line is wrong.
#[derive(Parser)]
#[command(name = "command-api", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service: the write side of the API, and the relay to Kafka.
    Serve(Box<CommandApiSettings>),
    /// Ask the service on this machine whether it is ready; exit code 1 if not.
    Health(CommandApiInternalListen),
    /// Check the settings of `serve`: read all files, connect to nothing. Exits with 1 if one is
    /// wrong.
    CheckConfig(Box<DoctorArgs<CommandApiSettings>>),
    /// Check the settings of `serve` and what they lead to: the server, its settings and its
    /// upkeep, migrations, rights, the topic. Exits with 1 if something must be mended.
    Doctor(Box<DoctorArgs<CommandApiSettings>>),
    #[command(flatten)]
    Admin(admin::AdminCommand),
}

/// Runs the command line of this process, and returns its exit code.
///
/// The futures of all commands are compiled here, so the program itself is only linked.
#[tokio::main]
pub async fn main() -> ExitCode {
    let outcome = match settings::parse::<Cli>().command {
        Command::Serve(serve) => run(*serve).await,
        Command::Health(internal) => health::check(internal.address).await,
        Command::CheckConfig(check) => check.report(&doctor::check_config(&check.settings)),
        Command::Doctor(check) => check.report(&doctor::examine(&check.settings).await),
        Command::Admin(command) => admin::run(command, &SystemClock).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to do should standard error be closed.
            writeln!(std::io::stderr(), "error: {}", failure::text(&error)).ok();
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: CommandApiSettings) -> anyhow::Result<()> {
    let _telemetry = telemetry::init("command-api", &arguments.listen.telemetry, "info")?;
    let listeners = CommandApiListeners {
        api: listen(arguments.listen.api_listen).await?,
        internal: listen(arguments.listen.internal.address).await?,
    };
    let clock = Arc::new(SystemClock);
    serve(arguments.config, clock, listeners, CancellationToken::new()).await
}
