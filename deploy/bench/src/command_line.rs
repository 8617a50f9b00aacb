//! The command line: one command for each benchmark, and one for all benchmarks.

use std::{io::Write as _, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand};
use linkledger_service::lifecycle::{self, Tasks};
use tokio_util::sync::CancellationToken;

use crate::{
    bench::{BenchContext, BenchOptions},
    benchmarks::{Benchmark, DetailedLinks},
    data_set::DataSet,
    running_stack::RunningStack,
    server::BenchServer,
};

/// Measure how fast linkledger is, in ratios to Postgres and axum on the same machine.
///
/// Prints the figures, and writes them as JSON and as a plot. Exits with 1 if a benchmark fails; a
/// missed goal does not change the exit code, since another machine may be busier.
#[derive(Debug, Parser)]
#[command(name = "linkledger-bench", version)]
struct BenchCommandLine {
    #[command(flatten)]
    options: BenchOptions,
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Make and verify the missing large data sets. Without this command, the first benchmark that
    /// needs a data set makes the data set.
    Prepare {
        /// Print the addresses of the data sets, and keep the server running until Ctrl-C.
        #[arg(long)]
        hold: bool,
    },
    /// Run every benchmark, one after the other.
    All,
    /// Create links on a running stack for --seconds, and print rate and latencies.
    Load(RunningStack),
    /// Start a stack with a million links of one account, print the address of the API and the API key, and keep the
    /// stack running until Ctrl-C.
    ServeLinks,
    #[command(flatten)]
    One(Benchmark),
}

/// Runs the command in the arguments of the process.
pub async fn run() -> ExitCode {
    let BenchCommandLine { options, command } = BenchCommandLine::parse();
    let done = match command {
        BenchCommand::Prepare { hold } => Box::pin(prepare(&options, hold)).await,
        BenchCommand::Load(stack) => stack.load(options.duration()).await,
        BenchCommand::ServeLinks => Box::pin(serve_links(options)).await,
        BenchCommand::All => {
            Box::pin(unless_stopped(run_benchmarks(options, Benchmark::ALL))).await
        }
        BenchCommand::One(benchmark) => {
            Box::pin(unless_stopped(run_benchmarks(options, &[benchmark]))).await
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say_error(&error);
            ExitCode::FAILURE
        }
    }
}

async fn serve_links(options: BenchOptions) -> anyhow::Result<()> {
    let bench = BenchContext::start(options).await?;
    let store = unless_stopped(DetailedLinks::start(&bench)).await?;
    let (api, key) = (store.stack.api, store.account.api_key.reveal());
    writeln!(std::io::stdout(), "http://{api} {key}")?;
    stopped().await?;
    store.stack.stop().await?;
    bench.server.drop_copies().await?;
    bench.server.stop().await
}

async fn prepare(options: &BenchOptions, hold: bool) -> anyhow::Result<()> {
    let prepared = async {
        let server = BenchServer::start(&options.data_dir).await?;
        for set in DataSet::ALL {
            let name = set.prepare(&server).await?;
            if hold {
                writeln!(std::io::stdout(), "{}", server.url(&name))?;
            }
        }
        Ok(server)
    };
    let server = unless_stopped(prepared).await?;
    if hold {
        stopped().await?;
    }
    server.stop().await
}

/// Runs the benchmarks; one that fails does not stop the others.
async fn run_benchmarks(options: BenchOptions, benchmarks: &[Benchmark]) -> anyhow::Result<()> {
    let bench = BenchContext::start(options).await?;
    let mut failed = Vec::new();
    for benchmark in benchmarks {
        let done = run_one(&bench, *benchmark).await;
        // The databases that the benchmark leaves behind would take the disk space of the next.
        for done in [done, bench.server.drop_copies().await] {
            if let Err(error) = done {
                say_error(&error);
                failed.push(benchmark);
            }
        }
    }
    bench.server.stop().await?;
    if !failed.is_empty() {
        bail!("failed: {failed:?}");
    }
    Ok(())
}

async fn run_one(bench: &BenchContext, benchmark: Benchmark) -> anyhow::Result<()> {
    let report = benchmark.run(bench).await.with_context(|| {
        let logs = bench.server.data_dir().display();
        format!("the benchmark {benchmark:?} fails; the programs' logs are in {logs}")
    })?;
    std::io::stdout().write_all(report.lines().as_bytes())?;
    report.write(&bench.options.out)
}

/// Runs `work` until Ctrl-C or SIGTERM. Dropping `work` kills the processes started by `work`.
async fn unless_stopped<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        done = work => done,
        signalled = stopped() => {
            signalled?;
            bail!("interrupted");
        }
    }
}

/// Returns on Ctrl-C or SIGTERM.
async fn stopped() -> anyhow::Result<()> {
    let mut tasks = Tasks::new(CancellationToken::new());
    lifecycle::shutdown_on_signal(&mut tasks)?;
    tasks.shutdown().cancelled().await;
    Ok(())
}

#[expect(clippy::print_stderr, reason = "an error message for the user")]
fn say_error(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}
