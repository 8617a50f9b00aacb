//! Logs of a process, on standard error, and its traces, for a collector. Keys, tokens and full
//! destinations are in neither: their types don't show them.
//!
//! Names of fields, the same wherever they stand: `http.request_id`, `trace_id`, `service`,
//! `http.request.method`, `http.route` (the template), `status`, `code`, `duration_ms` of a request;
//! `shard`, `projection`, `position`, `epoch`, `lag`, `events`, `oldest_age_ms` of the log;
//! `link.id`, `account.id`, `key.id`, `event.id`; `error` with its chain, `delay` and `attempt` of what is tried again; `address` of
//! a listener.

#[cfg(feature = "production")]
mod otlp;
#[cfg(not(feature = "production"))]
#[path = "telemetry/without_otlp.rs"]
mod otlp;
mod span_fields;

use std::{io::IsTerminal as _, time::Duration};

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, layer::SubscriberExt as _};

use self::span_fields::JsonSpanFields;

/// How long the end of a process waits for the collector to take the last spans, in seconds.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(2);

/// How a service logs, and where its traces go.
#[derive(Debug, Clone, Args)]
pub struct TelemetryConfig {
    /// How log lines are written.
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,
    /// Which log lines are written: a level, or levels by module, such as
    /// `info,linkledger_command_api::relay=debug` [default: info].
    #[arg(long, env = "RUST_LOG", value_name = "LEVELS")]
    pub log_filter: Option<String>,
    /// Collector that takes traces by OTLP over HTTP; without one, there are no traces.
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        value_name = "http://HOST:4318"
    )]
    pub otlp_endpoint: Option<String>,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line, for machines.
    Json,
    /// For people.
    Compact,
}

/// Logs and traces of this process; keep it to the end.
#[must_use = "what is not sent yet is sent when it is dropped"]
pub struct Telemetry {
    traces: Option<otlp::Provider>,
}

/// Starts logging, and tracing if there is a collector; what the settings say overrides `default_filter`.
///
/// # Errors
/// When the filter or the collector's address can't be used, or logging was started before.
pub fn init(
    service: &'static str,
    config: &TelemetryConfig,
    default_filter: &str,
) -> anyhow::Result<Telemetry> {
    let filter = filter(config.log_filter.as_deref().unwrap_or(default_filter))?;
    let lines = fmt::layer::<Registry>()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let lines = match config.log_format {
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .fmt_fields(JsonSpanFields)
            .boxed(),
        LogFormat::Compact => lines.compact().with_target(false).boxed(),
    };
    let endpoint = config.otlp_endpoint.as_deref();
    let traces = endpoint.map(|it| otlp::provider(service, it)).transpose()?;
    let subscriber = tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(traces.as_ref().map(otlp::layer));
    // Not `try_init`, which listens to the crate `log` too: a line of it that the filter drops takes
    // the next line of ours on that thread with it.
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| anyhow!("can't start logging: {error}"))?;
    Ok(Telemetry { traces })
}

/// Whether [`init`] would take that.
///
/// # Errors
/// What it says.
pub fn check(config: &TelemetryConfig) -> anyhow::Result<()> {
    config.log_filter.as_deref().map(filter).transpose()?;
    config.otlp_endpoint.as_deref().map_or(Ok(()), otlp::check)
}

fn filter(text: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::try_new(text).context("--log-filter (RUST_LOG) can't be used")
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(traces) = &self.traces
            && let Err(error) = otlp::shut_down(traces, FLUSH_TIME_MAX)
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the last spans have not reached the collector");
        }
    }
}
