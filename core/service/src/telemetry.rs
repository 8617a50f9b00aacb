//! Logs, on standard error, and traces, for a collector. Neither contains keys, tokens or full
//! destinations: the types of these values redact the content.
//!
//! Names of fields are the same in all log lines. For requests: `http.request_id`, `trace_id`,
//! `service`, `http.request.method`, `http.route` (the template), `status`, `code`, `duration_ms`.
//! For the log: `shard`, `projection`, `position`, `epoch`, `lag`, `events`, `oldest_age_ms`. For
//! ids: `link.id`, `account.id`, `key.id`, `event.id`. For errors: `error` with its chain; for
//! retries: `delay` and `attempt`; for listeners: `address`; for slow statements: `db.statement` (its beginning) and
//! `elapsed`.

mod otlp;
mod slow_statements;
mod span_fields;

use std::{io::IsTerminal as _, time::Duration};

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, layer::SubscriberExt as _};

use self::{slow_statements::SlowStatements, span_fields::JsonSpanFields};

/// Maximal time for which the end of a process waits for the collector to accept the last spans, in
/// seconds.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(2);

/// Settings of logs and traces.
#[derive(Debug, Clone, Args)]
pub struct TelemetryConfig {
    /// Format of log lines.
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value = "json")]
    pub log_format: LogFormat,
    /// Filter of log lines: a level, or levels by module, such as
    /// `info,linkledger_command_api::relay=debug` [default: info].
    #[arg(long, env = "RUST_LOG", value_name = "LEVELS")]
    pub log_filter: Option<String>,
    /// Collector that receives traces by OTLP over HTTP [default: no traces].
    #[arg(
        long,
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        value_name = "http://HOST:4318"
    )]
    pub otlp_endpoint: Option<String>,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line, for machines.
    Json,
    /// Compact text, for people.
    Compact,
}

/// Logs and traces of this process. Keep the value until the end of the process.
#[must_use = "the last spans are sent when the value is dropped"]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
}

/// Starts logging, and tracing if there is a collector. The settings override `default_filter`.
///
/// # Errors
/// Returns an error if the filter or the collector's address is invalid, or logging was already
/// started.
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
            .map_event_format(SlowStatements::new)
            .boxed(),
        LogFormat::Compact => lines
            .compact()
            .with_target(false)
            .map_event_format(SlowStatements::new)
            .boxed(),
    };
    let endpoint = config.otlp_endpoint.as_deref();
    let traces = endpoint
        .map(|endpoint| otlp::provider(service, endpoint))
        .transpose()?;
    let subscriber = tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(traces.as_ref().map(otlp::layer));
    // Not `try_init`, which also captures the crate `log`: if the filter drops one of its lines,
    // the next line on that thread is lost too.
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| anyhow!("cannot start logging: {error}"))?;
    Ok(Telemetry { traces })
}

/// Checks the settings without starting anything.
///
/// # Errors
/// Returns the errors of [`init`] for these settings.
pub fn check(config: &TelemetryConfig) -> anyhow::Result<()> {
    config.log_filter.as_deref().map(filter).transpose()?;
    config.otlp_endpoint.as_deref().map_or(Ok(()), otlp::check)
}

fn filter(text: &str) -> anyhow::Result<EnvFilter> {
    EnvFilter::try_new(text).context("--log-filter (RUST_LOG) is invalid")
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(traces) = &self.traces
            && let Err(error) = traces.shutdown_with_timeout(FLUSH_TIME_MAX)
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the last spans did not reach the collector");
        }
    }
}
