//! Logs of a process, on standard error. Keys, tokens and full destinations are never logged:
//! their types don't show them.

use std::io::IsTerminal as _;

use anyhow::anyhow;
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line, for machines.
    Json,
    /// For people.
    Compact,
}

/// Starts logging; `RUST_LOG` overrides `default_filter`.
///
/// # Errors
/// When `RUST_LOG` can't be read, or logging was started before.
pub fn init(format: LogFormat, default_filter: &str) -> anyhow::Result<()> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(filter) => EnvFilter::try_new(filter)?,
        Err(_) => EnvFilter::try_new(default_filter)?,
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Compact => builder.compact().with_target(false).try_init(),
    }
    .map_err(|error| anyhow!("can't start logging: {error}"))
}
