//! The command line of the program `query-api`.

use std::{io::Write as _, process::ExitCode};

use crate::{QueryApiInternalListen, config::QueryApiSettings, doctor, serve};
use clap::Parser;
use linkledger_core::{doctor::DoctorArgs, failure, lifecycle::health, settings, telemetry};
use tokio_util::sync::CancellationToken;

/// Answers reads of the API and follows short links.
#[derive(Parser)]
#[command(name = "query-api", version)]
enum Command {
    /// Serves the API's reads and the short host until SIGTERM.
    Serve(Box<QueryApiSettings>),
    /// Asks the service on this machine whether it is ready; exit code 1 if not.
    Health(QueryApiInternalListen),
    /// Checks the settings of `serve`: reads all files, connects to nothing. Exits with 1 if one is
    /// wrong.
    CheckConfig(Box<DoctorArgs<QueryApiSettings>>),
    /// Checks the settings of `serve` and what they lead to: the server, its settings and its
    /// upkeep, migrations, rights. Exits with 1 if something must be mended.
    Doctor(Box<DoctorArgs<QueryApiSettings>>),
}

/// Runs the command line of this process, and returns its exit code.
///
/// The futures of all commands are compiled here, so the program itself is only linked.
#[tokio::main]
pub async fn main() -> ExitCode {
    let outcome = match settings::parse() {
        Command::Serve(settings) => run(*settings).await,
        Command::Health(internal) => health::check(internal.address).await,
        Command::CheckConfig(check) => check.report(&doctor::check_config(&check.settings)),
        Command::Doctor(check) => check.report(&doctor::examine(&check.settings).await),
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

async fn run(QueryApiSettings { config, listen }: QueryApiSettings) -> anyhow::Result<()> {
    let _telemetry = telemetry::init("query-api", &listen.telemetry, "info")?;
    serve(config, listen.listen().await?, CancellationToken::new()).await
}
