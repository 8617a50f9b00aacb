//! The cost of a create, an event and a redirect, counted and not timed, for `.ci/performance`.
//!
//! All counted work happens on the main thread, inside functions that callgrind knows by name
//! (`let_serve`, `decode`, `apply`). callgrind dumps its counters at each call of `end_of`: once for
//! a part, or once for each round of a part, and then once without counts. Work that depends on the
//! clock runs on other threads, or between the rounds. The Postgres server is another process: called
//! with a command as its arguments, this program starts a server and runs the command beside the
//! server.

mod accounts;
mod creates;
mod events;
mod redirects;
mod server;
mod visitors;
mod wire;

use std::{
    ffi::{OsStr, OsString},
    io::Write as _,
};

use anyhow::Context as _;
use linkledger_service::{
    lifecycle::Tasks,
    metrics_recorder::MetricsRecorder,
    telemetry::{self, LogFormat, TelemetryConfig},
};
use serde_json::json;
use tokio::{
    process::Command,
    runtime::{self, Runtime},
};
use tokio_util::sync::CancellationToken;

use crate::server::{Counters, CountingServer, Spent};

/// Requests that arrive at the same moment: the size of a batch.
const REQUESTS_PER_ROUND: usize = 32;
/// Rate limit that is checked and never reached.
const RATE_LIMIT: u32 = 1_000_000;

/// Environment variable with the address of the large database.
const LARGE_DATABASE_URL: &str = "LARGE_DATABASE_URL";

/// Work that was done, and its cost for the database.
#[derive(Debug, Default)]
struct Counted {
    /// Number of creates, events or redirects.
    done: usize,
    /// Cost for Postgres, if Postgres takes part. Bytes of the write-ahead log are of all rounds;
    /// statements and round trips are of one round, of the part with the fewest.
    spent: Option<Spent>,
}

impl Counted {
    /// Returns the count of one round, without its cost for Postgres.
    fn of_round(done: usize) -> Self {
        Self { done, spent: None }
    }

    fn add(&mut self, spent: Spent, done: usize) {
        self.done += done;
        self.spent = Some(match self.spent.take() {
            None => spent,
            Some(before) => Spent {
                statements: fewest(before.statements, spent.statements),
                round_trips: before.round_trips.min(spent.round_trips),
                wal_bytes: before.wal_bytes + spent.wal_bytes,
            },
        });
    }
}

fn main() -> anyhow::Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let command: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some((program, arguments)) = command.split_first() {
        return runtime.block_on(run_beside_a_server(program, arguments));
    }
    let url = std::env::var("DATABASE_URL").context("no DATABASE_URL, and no command to run")?;
    count(&runtime, &url)
}

/// Runs the command with the address of a new server in `DATABASE_URL`.
async fn run_beside_a_server(program: &OsStr, arguments: &[OsString]) -> anyhow::Result<()> {
    let server = CountingServer::start().await?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("DATABASE_URL", server.url())
        .env(LARGE_DATABASE_URL, server.large_url());
    let status = command.status().await.context("can't run the command")?;
    server.stop().await?;
    anyhow::ensure!(status.success(), "the command has ended with {status}");
    Ok(())
}

fn count(runtime: &Runtime, url: &str) -> anyhow::Result<()> {
    let config = TelemetryConfig {
        log_format: LogFormat::Json,
        log_filter: None,
        otlp_endpoint: None,
    };
    let _telemetry = telemetry::init("cost", &config, "info")?;
    let mut tasks = runtime.block_on(async { Tasks::new(CancellationToken::new()) });
    runtime.block_on(async { MetricsRecorder::install(&mut tasks) })?;
    let server = runtime.block_on(async { Counters::of(url) })?;
    let accounts = runtime.block_on(accounts::create(&server.pool, creates::PARTS))?;
    end_of("preparation", &Counted::default())?;
    end_of("create", &creates::count(runtime, &server, &accounts)?)?;
    end_of("event", &events::count(runtime, &server)?)?;
    end_of("redirect", &redirects::count(runtime, &server)?)?;
    let redirects = redirects::count_with_clicks(runtime, &server)?;
    end_of("redirect_with_click", &redirects)?;
    // Last, since its checkpoints would add whole pages to the write-ahead log of the other parts.
    let large_url = std::env::var(LARGE_DATABASE_URL).context("no LARGE_DATABASE_URL")?;
    let large_server = runtime.block_on(async { Counters::of(&large_url) })?;
    let large_accounts = accounts::of_data_set(&large_url, creates::LARGE_ACCOUNTS);
    let large_accounts = runtime.block_on(large_accounts)?;
    let counted = creates::count_large(runtime, &large_server, &large_accounts)?;
    end_of("create_in_large_store", &counted)
}

fn fewest(some: Vec<String>, others: Vec<String>) -> Vec<String> {
    if others.len() < some.len() {
        others
    } else {
        some
    }
}

/// Ends a part: callgrind dumps the counts since the last call, and a line of JSON is printed.
#[inline(never)]
fn end_of(part: &str, counted: &Counted) -> anyhow::Result<()> {
    let spent = counted.spent.as_ref();
    let line = json!({
        "part": part,
        "done": counted.done,
        "statements": spent.map(|it| &it.statements),
        "round_trips": spent.map(|it| it.round_trips),
        "wal_bytes": spent.map(|it| it.wal_bytes),
    });
    Ok(writeln!(std::io::stdout(), "{line}")?)
}
