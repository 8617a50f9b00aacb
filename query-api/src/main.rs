//! The process `query-api`: its command line, and nothing else.

use std::{io::Write as _, process::ExitCode};

use clap::Parser;
use linkledger_core::telemetry;
use linkledger_query_api::{Config, ListenConfig, serve};
use tokio_util::sync::CancellationToken;

/// Answers reads of the API and follows short links.
#[derive(Parser)]
#[command(name = "query-api", version)]
enum Command {
    /// Serves the API's reads and the short host until SIGTERM.
    Serve {
        #[command(flatten)]
        config: Box<Config>,
        #[command(flatten)]
        listen: ListenConfig,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Serve { config, listen } = Command::parse();
    let outcome = async {
        let _telemetry = telemetry::init("query-api", &listen.telemetry, "info")?;
        serve(*config, listen.listen().await?, CancellationToken::new()).await
    };
    match outcome.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to do should standard error be closed.
            writeln!(std::io::stderr(), "error: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}
