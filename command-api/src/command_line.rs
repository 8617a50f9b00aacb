//! The command line of the program `command-api`.

use std::{io::Write as _, process::ExitCode, sync::Arc};

use crate::{
    CommandApiListeners, admin,
    config::{CommandApiInternalListen, CommandApiSettings},
    doctor, serve,
};
use clap::{Parser, Subcommand};
use linkledger_core::clock::SystemClock;
use linkledger_service::{
    doctor::DoctorArgs,
    failure,
    lifecycle::{health, listen, run_program},
    settings, telemetry,
};
use tokio_util::sync::CancellationToken;

/// Creates links for credits, and holds the operator's commands on accounts, keys and credits.
///
/// Exit codes: 0 done; 1 not done (standard error says why); 2 the command line is wrong. Commands on accounts, keys,
/// credits and links also: 4 there is no such account, key, link or entry; 5 it conflicts with what was done before;
/// 6 refused for another reason; 7 not done, or the outcome is unknown: retry. With --json standard error is then
/// {"code", "detail"}.
#[derive(Parser)]
#[command(name = "command-api", version)]
struct Cli {
    #[command(subcommand)]
    command: CommandApiCommand,
}

#[derive(Subcommand)]
enum CommandApiCommand {
    /// Run the service: the write side of the API, and the relay to Kafka.
    Serve(Box<CommandApiSettings>),
    /// Ask the service on this machine for its readiness; exits with 1 if the service is not ready.
    Health(CommandApiInternalListen),
    /// Check the settings of `serve` without a connection; all files are read. Exits with 1 if a
    /// setting is wrong.
    CheckConfig(Box<DoctorArgs<CommandApiSettings>>),
    /// Check the settings of `serve`, the database server with its settings and maintenance, the
    /// migrations, the rights and the topic. Exits with 1 if a check fails.
    Doctor(Box<DoctorArgs<CommandApiSettings>>),
    #[command(flatten)]
    Admin(Box<admin::AdminCommand>),
}

/// Runs the command line of this process, and returns the exit code.
///
/// All commands are compiled in the library, so that a build of the program only links.
pub fn main() -> ExitCode {
    run_program(run_command_line())
}

async fn run_command_line() -> ExitCode {
    let command = settings::parse::<Cli>().command;
    let prints_json =
        matches!(&command, CommandApiCommand::Admin(command) if command.prints_json());
    let outcome = match command {
        CommandApiCommand::Serve(serve) => run(*serve).await,
        CommandApiCommand::Health(internal) => health::check(internal.address).await,
        CommandApiCommand::CheckConfig(check) => {
            check.report(&doctor::check_config(&check.settings))
        }
        CommandApiCommand::Doctor(check) => check.report(&doctor::examine(&check.settings).await),
        CommandApiCommand::Admin(command) => admin::run(*command, &SystemClock).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = failure::text(&error);
            let printed = if prints_json {
                admin::error::problem(&error, &text)
            } else {
                format!("error: {text}")
            };
            // If standard error is closed, the message is lost.
            writeln!(std::io::stderr(), "{printed}").ok();
            ExitCode::from(admin::error::exit_code(&error))
        }
    }
}

async fn run(arguments: CommandApiSettings) -> anyhow::Result<()> {
    let _telemetry = telemetry::init("command-api", &arguments.listen.telemetry, "info")?;
    let admin = match arguments.listen.admin_listen {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let listeners = CommandApiListeners {
        api: listen(arguments.listen.api_listen).await?,
        admin,
        internal: listen(arguments.listen.internal.address).await?,
    };
    let clock = Arc::new(SystemClock);
    serve(arguments.config, clock, listeners, CancellationToken::new()).await
}
