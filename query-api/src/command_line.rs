//! The command line of the program `query-api`.

use std::{io::Write as _, process::ExitCode};

use crate::{QueryApiInternalListen, config::QueryApiSettings, doctor, serve};
use clap::Parser;
use linkledger_service::{
    doctor::DoctorArgs,
    failure,
    lifecycle::{health, run_program},
    settings, telemetry,
};
use tokio_util::sync::CancellationToken;

/// Answers reads of the API and follows short links.
#[derive(Parser)]
#[command(name = "query-api", version)]
enum QueryApiCommand {
    /// Serve the reads of the API and the short host until SIGTERM.
    Serve(Box<QueryApiSettings>),
    /// Ask the service on this machine for its readiness; exits with 1 if the service is not ready.
    Health(QueryApiInternalListen),
    /// Check the settings of `serve` without a connection; all files are read. Exits with 1 if a
    /// setting is wrong.
    CheckConfig(Box<DoctorArgs<QueryApiSettings>>),
    /// Check the settings of `serve`, the database server with its settings and maintenance, the
    /// migrations and the rights. Exits with 1 if a check fails.
    Doctor(Box<DoctorArgs<QueryApiSettings>>),
}

/// Runs the command line of this process, and returns the exit code.
///
/// The futures of all commands are compiled in the library; the program is only linked.
pub fn main() -> ExitCode {
    run_program(run_command_line())
}

async fn run_command_line() -> ExitCode {
    let outcome = match settings::parse() {
        QueryApiCommand::Serve(settings) => run(*settings).await,
        QueryApiCommand::Health(internal) => health::check(internal.address).await,
        QueryApiCommand::CheckConfig(check) => check.report(&doctor::check_config(&check.settings)),
        QueryApiCommand::Doctor(check) => check.report(&doctor::examine(&check.settings).await),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed, the message is lost.
            writeln!(std::io::stderr(), "error: {}", failure::text(&error)).ok();
            ExitCode::FAILURE
        }
    }
}

async fn run(QueryApiSettings { config, listen }: QueryApiSettings) -> anyhow::Result<()> {
    let _telemetry = telemetry::init("query-api", &listen.telemetry, "info")?;
    serve(config, listen.listen().await?, CancellationToken::new()).await
}
