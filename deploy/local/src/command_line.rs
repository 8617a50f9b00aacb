//! The command line of `linkledger`: the local stack, and the commands that call the HTTP API.

use std::{
    env,
    process::{self, ExitCode},
};

use clap::{
    CommandFactory as _, Parser, Subcommand,
    error::{ContextKind, ErrorKind},
};
use linkledger_service::{
    lifecycle::run_program_on,
    settings,
    telemetry::{self, LogFormat, TelemetryConfig},
};

use crate::{
    clicks::{self, ClicksOptions},
    completions::{self, CompletionsOptions},
    credits::{self, CreditsOptions},
    demo::{self, DemoOptions},
    events::{self, EventsOptions},
    exit_code::{EXIT_CODES, ExitReason},
    export::{self, ExportOptions},
    import::{self, ImportOptions},
    links::{self, LinksOptions},
    options::StackOptions,
    output, problem, stack,
    webhooks::{self, WebhooksOptions},
};

/// Default log filter. The relay and the projector log every broker problem themselves, so the lines
/// of librdkafka are dropped. A certificate that is not trusted is named in the error of the call.
const LOG_FILTER: &str = "warn,librdkafka=off,rustls_platform_verifier=off";

/// Threads of the process: more than cores, since services must not wait for each other's work.
const THREADS: usize = 8;

/// Error text for an option before a command. Clap's own text, "can't be used with", would be wrong
/// for `--data-dir`.
const OPTION_BEFORE_COMMAND: &str = "options before a command belong to the stack; put the option behind the command, if the \
     command has it (see `linkledger <COMMAND> --help`)";

/// Run the short-link service linkledger on this machine, or call its API.
///
/// Without a command, linkledger starts the whole stack: Postgres, a Kafka broker, the three
/// services, and a demo account with credits and an API key. Ctrl-C stops the stack; the data stay
/// in the data folder. Webhooks may go to receivers on this machine, unless `WEBHOOK_ALLOW_NETS` says otherwise.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true, after_help = EXIT_CODES)]
pub struct CommandLine {
    #[command(flatten)]
    stack: StackOptions,
    #[command(subcommand)]
    command: Option<LinkledgerCommand>,
}

#[derive(Subcommand)]
enum LinkledgerCommand {
    /// Start the stack, as `linkledger` without a command does.
    Up(StackOptions),
    /// Create the links of a file, also of another product; running the same file again creates only the
    /// missing links.
    #[command(after_help = EXIT_CODES)]
    Import(ImportOptions),
    /// Write all links of the account as JSON lines or CSV, which `linkledger import` reads.
    #[command(after_help = EXIT_CODES)]
    Export(ExportOptions),
    /// Create, list, read, change and delete links.
    #[command(after_help = EXIT_CODES)]
    Links(LinksOptions),
    /// Show the clicks of a link or of all links, over time or by value.
    #[command(after_help = EXIT_CODES)]
    Clicks(ClicksOptions),
    /// Show the credit balance or the credit entries of the account.
    #[command(after_help = EXIT_CODES)]
    Credits(CreditsOptions),
    /// Print the events of the account in their order, wait for new ones, and forward them to a receiver.
    #[command(after_help = EXIT_CODES)]
    Events(EventsOptions),
    /// Create, list, change, test and delete webhooks, and retry their deliveries.
    #[command(after_help = EXIT_CODES)]
    Webhooks(WebhooksOptions),
    /// Fill an account of its own on the running stack with made-up links, and a week of made-up clicks up to now.
    /// Running it again adds only the clicks of the time in between.
    #[command(after_help = EXIT_CODES)]
    Demo(DemoOptions),
    /// Print the completion script of a shell.
    Completions(CompletionsOptions),
}

impl CommandLine {
    /// Reads the arguments of the process. Ends the process if an argument is not valid, or if help
    /// was asked for.
    fn of_process() -> Self {
        settings::parse_explaining(|error| {
            let error = if error.get(ContextKind::InvalidSubcommand).is_some()
                && error.kind() == ErrorKind::ArgumentConflict
            {
                Self::command().error(error.kind(), OPTION_BEFORE_COMMAND)
            } else {
                error
            };
            if error.use_stderr() && env::args_os().any(|argument| argument == "--json") {
                complain_as_json(&error)
            }
            error
        })
    }
}

impl LinkledgerCommand {
    fn is_json(&self) -> bool {
        match self {
            Self::Links(links) => links.api.json,
            Self::Clicks(clicks) => clicks.api.json,
            Self::Credits(credits) => credits.api.json,
            Self::Events(events) => events.api.json,
            Self::Webhooks(webhooks) => webhooks.api.json,
            Self::Up(_)
            | Self::Import(_)
            | Self::Export(_)
            | Self::Demo(_)
            | Self::Completions(_) => false,
        }
    }
}

/// Runs the command line of this process, and returns the exit code.
///
/// The futures of all commands are compiled in the library; the program is only linked.
pub fn main() -> ExitCode {
    run_program_on(THREADS, run_command_line())
}

/// Prints an error of the command line as a problem document, without the lines on usage and help, and ends the
/// process.
fn complain_as_json(error: &clap::Error) -> ! {
    let text = error.to_string();
    let detail = text.split("\n\nUsage:").next().unwrap_or_default();
    let detail = detail.split("\n\nFor more").next().unwrap_or_default();
    let detail = detail.trim_start_matches("error: ").trim();
    output::complain(&problem::wrong_use(detail));
    process::exit(i32::from(ExitReason::WrongUse as u8))
}

async fn run_command_line() -> ExitCode {
    let CommandLine { stack, command } = CommandLine::of_process();
    let command = command.unwrap_or(LinkledgerCommand::Up(stack));
    let is_json = command.is_json();
    if is_json {
        output::omit_notices();
    }
    let config = TelemetryConfig {
        log_format: LogFormat::Compact,
        log_filter: env::var("RUST_LOG").ok(),
        otlp_endpoint: None,
    };
    let outcome = match telemetry::init("linkledger", &config, LOG_FILTER) {
        Ok(_telemetry) => match command {
            LinkledgerCommand::Up(options) => Box::pin(stack::up(options)).await,
            LinkledgerCommand::Import(import) => import::run(import).await,
            LinkledgerCommand::Export(export) => export::run(export).await,
            LinkledgerCommand::Links(links) => links::run(links).await,
            LinkledgerCommand::Clicks(clicks) => clicks::run(clicks).await,
            LinkledgerCommand::Credits(credits) => credits::run(credits).await,
            LinkledgerCommand::Events(events) => events::run(events).await,
            LinkledgerCommand::Webhooks(webhooks) => webhooks::run(webhooks).await,
            LinkledgerCommand::Demo(demo) => demo::run(demo).await,
            LinkledgerCommand::Completions(completions) => completions::run(&completions),
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
    fn command_line_has_no_contradiction() {
        CommandLine::command().debug_assert();
    }
}
