//! The command line of linkledger: the local stack, and what works against it.

use std::{io::Write as _, process::ExitCode};

use clap::{Parser, Subcommand};
use linkledger::{
    import::{self, Import},
    options::StackOptions,
    stack,
};
use linkledger_core::telemetry::{self, LogFormat};

/// Starts the whole of linkledger on this machine: Postgres, a Kafka broker, the three services,
/// an account with credits and a key. Ctrl-C ends it; the data stay.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    options: StackOptions,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Start the stack; the default.
    Up,
    /// Create a link for each line of a file, once, however often it is run.
    Import(Import),
}

/// What librdkafka says to itself, the relay and the projector say once and in other words.
const LOG_FILTER: &str = "warn,librdkafka=off";

// More threads than cores: the services of one process must not wait for each other's work.
#[tokio::main(worker_threads = 8)]
async fn main() -> ExitCode {
    let Cli { options, command } = Cli::parse();
    let outcome = match telemetry::init(LogFormat::Compact, LOG_FILTER) {
        Ok(()) => match command {
            None | Some(Command::Up) => stack::up(options).await.map(|()| ExitCode::SUCCESS),
            Some(Command::Import(import)) => import::run(&import, &options.data_dir).await,
        },
        Err(error) => Err(error),
    };
    outcome.unwrap_or_else(|error| {
        // Nothing is left to do should standard error be closed.
        writeln!(std::io::stderr(), "error: {error:#}").ok();
        ExitCode::FAILURE
    })
}
