//! The command line of linkledger: the local stack, and what works against an API.

use std::{env, process::ExitCode};

use clap::{
    CommandFactory as _, Parser, Subcommand,
    error::{ContextKind, ErrorKind},
};
use linkledger_core::{
    settings,
    telemetry::{self, LogFormat, TelemetryConfig},
};

use crate::{
    completions::{self, Completions},
    credits::{self, Credits},
    import::{self, Import},
    links::{self, Links},
    options::StackOptions,
    output::{self, EXIT_CODES},
    stack,
};

/// What librdkafka says to itself, the relay and the projector say once and in other words; what
/// the verifier of certificates says is in the error of the call.
const LOG_FILTER: &str = "warn,librdkafka=off,rustls_platform_verifier=off";

/// Said instead of "can't be used with", which would be wrong of `--data-dir`.
const OPTION_BEFORE_COMMAND: &str =
    "an option before a command is one of the stack; put it behind the command, if it knows it";

/// A short-link service on this machine, and a client for it.
///
/// Without a command it starts the whole of linkledger: Postgres, a Kafka broker, the three
/// services, an account with credits and a key. Ctrl-C ends it; the data stay.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true, after_help = EXIT_CODES)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    stack: StackOptions,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Start the stack; the same as no command.
    Up(StackOptions),
    /// Create a link for each line of a file, once, however often it is run.
    #[command(after_help = EXIT_CODES)]
    Import(Import),
    /// Create, list, read, change and delete links.
    #[command(after_help = EXIT_CODES)]
    Links(Links),
    /// Show the account's credits, or what was granted and charged.
    #[command(after_help = EXIT_CODES)]
    Credits(Credits),
    /// Print completions for a shell.
    Completions(Completions),
}

impl CommandLine {
    /// Reads the arguments of the process; ends it where they are wrong, or ask for help.
    fn of_process() -> Self {
        settings::parse_explaining(|error| {
            if error.get(ContextKind::InvalidSubcommand).is_some()
                && error.kind() == ErrorKind::ArgumentConflict
            {
                return Self::command().error(error.kind(), OPTION_BEFORE_COMMAND);
            }
            error
        })
    }
}

impl Command {
    fn is_json(&self) -> bool {
        match self {
            Self::Links(links) => links.api.json,
            Self::Credits(credits) => credits.api.json,
            Self::Up(_) | Self::Import(_) | Self::Completions(_) => false,
        }
    }
}

/// Runs the command line of this process to its end.
///
/// The futures of all commands are compiled here, so that the program itself is only linked.
// More threads than cores: the services of one process must not wait for each other's work.
#[tokio::main(worker_threads = 8)]
pub async fn main() -> ExitCode {
    let CommandLine { stack, command } = CommandLine::of_process();
    let command = command.unwrap_or(Command::Up(stack));
    let is_json = command.is_json();
    let config = TelemetryConfig {
        log_format: LogFormat::Compact,
        log_filter: env::var("RUST_LOG").ok(),
        otlp_endpoint: None,
    };
    let outcome = match telemetry::init("linkledger", &config, LOG_FILTER) {
        Ok(_telemetry) => match command {
            Command::Up(options) => stack::up(options).await,
            Command::Import(import) => import::run(import).await,
            Command::Links(links) => links::run(links).await,
            Command::Credits(credits) => credits::run(credits).await,
            Command::Completions(completions) => completions::run(&completions),
        },
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::fail(&error, is_json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_has_no_contradiction() {
        CommandLine::command().debug_assert();
    }
}
