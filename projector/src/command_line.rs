//! The command line of the program `projector`.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use crate::{
    cli,
    config::{InternalListen, ProjectorSettings},
    doctor, serve,
    webhooks::{config::WebhooksSettings, serve_webhooks},
};
use clap::{Args, Parser};
use linkledger_service::{
    doctor::DoctorArgs,
    failure,
    lifecycle::{health, run_program},
    settings, telemetry,
};
use tokio_util::sync::CancellationToken;

/// Keeps the read models of linkledger up to date with its event log.
///
/// Exit codes: 0 done, 1 not done (standard error says why), 2 the command line is wrong.
#[derive(Parser)]
#[command(name = "projector", version)]
enum Cli {
    /// Run the service: apply events as they arrive.
    Run(Box<ProjectorSettings>),
    /// Send webhooks: messages about events to the addresses that owners and operators have named. Of several
    /// processes one sends, and another takes over within seconds. With --check-config or --doctor, only check.
    Webhooks(Box<WebhooksSubcommand>),
    /// Ask the service on this machine whether it is ready; exit code 1 if not.
    Health(InternalListen),
    /// Check the settings of `run`: read all files, connect to nothing. Exits with 1 if one is
    /// wrong.
    CheckConfig(Box<DoctorArgs<ProjectorSettings>>),
    /// Check the settings of `run` and the database: the server and its settings, migrations,
    /// rights, the read models. Exits with 1 if an operator must act.
    Doctor(Box<DoctorArgs<ProjectorSettings>>),
    #[command(flatten)]
    Operator(cli::OperatorSubcommand),
}

/// Settings of `webhooks`, and its checks.
#[derive(Args)]
struct WebhooksSubcommand {
    #[command(flatten)]
    check: DoctorArgs<WebhooksSettings>,
    /// Check the settings and exit: read all files, connect to nothing. Exits with 1 if one is wrong.
    #[arg(long, conflicts_with = "doctor")]
    check_config: bool,
    /// Check the settings and the database, and exit. Exits with 1 if an operator must act.
    #[arg(long)]
    doctor: bool,
}

/// Runs the command line of this process, and returns its exit code.
///
/// The futures of all commands are compiled here, so the program itself is only linked.
pub fn main() -> ExitCode {
    run_program(run_command_line())
}

async fn run_command_line() -> ExitCode {
    let outcome = match settings::parse() {
        Cli::Run(settings) => run(*settings).await,
        Cli::Webhooks(command) => webhooks(*command).await,
        Cli::Health(internal) => health::check(internal.address).await,
        Cli::CheckConfig(check) => check.report(&doctor::check_config(&check.settings)),
        Cli::Doctor(check) => check.report(&doctor::examine(&check.settings).await),
        Cli::Operator(command) => Box::pin(cli::run(command)).await,
    };
    if let Err(error) = outcome {
        if is_closed_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        // A failure of standard error cannot be reported.
        writeln!(io::stderr(), "error: {}", failure::text(&error)).ok();
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Returns true if the reader of standard output, such as `head`, has closed the pipe.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe)
}

async fn run(ProjectorSettings { config, listen }: ProjectorSettings) -> anyhow::Result<()> {
    let _telemetry = telemetry::init("projector", &listen.telemetry, "info")?;
    serve(config, listen.listen().await?, CancellationToken::new()).await
}

async fn webhooks(command: WebhooksSubcommand) -> anyhow::Result<()> {
    let WebhooksSubcommand { check, .. } = command;
    if command.check_config {
        return check.report(&doctor::check_webhooks_config(&check.settings));
    }
    if command.doctor {
        return check.report(&doctor::examine_webhooks(&check.settings).await);
    }
    let WebhooksSettings { config, listen } = check.settings;
    let _telemetry = telemetry::init("webhooks", &listen.telemetry, "info")?;
    serve_webhooks(config, listen.listen().await?, CancellationToken::new()).await
}
