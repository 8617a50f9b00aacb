//! The command line: one command for each question, and one for all.

use std::{io::Write as _, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand};
use linkledger_core::lifecycle::{self, Tasks};
use tokio_util::sync::CancellationToken;

use crate::{
    answer::Answer,
    bare_redirect::BareRedirect,
    bench::{Bench, Options},
    data_set::DataSet,
    questions::Question,
    report,
    running_stack::RunningStack,
    server::BenchServer,
};

/// How fast linkledger is, in ratios to what Postgres and axum reach beside it.
///
/// Exits with 1 when a question can't be answered. Whether a target is reached or missed is told in
/// the table: a machine that is busier than another is no failure.
#[derive(Debug, Parser)]
#[command(name = "linkledger-bench", version)]
struct CommandLine {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the large data sets that are not there yet; otherwise the first question that needs
    /// one makes it.
    Prepare {
        /// Print their addresses then, and keep the server running until Ctrl-C.
        #[arg(long)]
        hold: bool,
    },
    /// Every question, one after the other, in one table. Exits with 1 when one can't be answered, not
    /// when a target is missed.
    All,
    /// Create links on a stack that runs already, for --seconds, and tell rate and latencies.
    Load(RunningStack),
    /// What redirects are measured against; started by the question itself.
    #[command(hide = true)]
    BareRedirect(BareRedirect),
    #[command(flatten)]
    One(Question),
}

/// Does what the arguments of the process ask for.
pub async fn run() -> ExitCode {
    let CommandLine { options, command } = CommandLine::parse();
    let done = match command {
        Command::Prepare { hold } => Box::pin(prepare(&options, hold)).await.map(|()| true),
        Command::Load(stack) => stack.load(options.duration()).await.map(|()| true),
        Command::BareRedirect(bare) => serve(bare).await.map(|()| true),
        Command::All => unless_stopped(Box::pin(ask(options, Question::ALL))).await,
        Command::One(question) => unless_stopped(Box::pin(ask(options, &[question]))).await,
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// On threads of its own.
async fn serve(bare: BareRedirect) -> anyhow::Result<()> {
    tokio::task::spawn_blocking(|| bare.serve()).await?
}

async fn prepare(options: &Options, hold: bool) -> anyhow::Result<()> {
    let server = unless_stopped(Box::pin(prepared(options, hold))).await?;
    if hold {
        stopped().await?;
    }
    server.stop().await
}

/// A server with all data sets, whose addresses are printed if it is to be kept running.
async fn prepared(options: &Options, hold: bool) -> anyhow::Result<BenchServer> {
    let server = BenchServer::start(&options.data_dir).await?;
    for set in DataSet::ALL {
        let name = set.prepare(&server).await?;
        if hold {
            writeln!(std::io::stdout(), "{}", server.url(&name))?;
        }
    }
    Ok(server)
}

/// Whether all could be answered and kept; one that can't does not keep the others from it.
async fn ask(options: Options, questions: &[Question]) -> anyhow::Result<bool> {
    let bench = Bench::start(options).await?;
    let mut answers: Vec<Answer> = Vec::new();
    let mut is_complete = true;
    for question in questions {
        let done = answer(&bench, *question, &mut answers).await;
        // What it has left behind would take the room of the next one.
        for error in [done, bench.server.drop_copies().await]
            .into_iter()
            .filter_map(Result::err)
        {
            say_error(&error);
            is_complete = false;
        }
    }
    std::io::stdout().write_all(report::table(&answers).as_bytes())?;
    bench.server.stop().await?;
    Ok(is_complete)
}

async fn answer(
    bench: &Bench,
    question: Question,
    answers: &mut Vec<Answer>,
) -> anyhow::Result<()> {
    let answer = question.ask(bench).await.with_context(|| {
        let logs = bench.server.data_dir().display();
        format!("{question:?} can't be answered (the logs of the programs are in {logs})")
    })?;
    let written = report::write(&bench.options.out, &answer);
    answers.push(answer);
    written
}

/// Breaks the work off when it is to stop; with it end the processes that it has started.
async fn unless_stopped<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        done = work => done,
        signalled = stopped() => {
            signalled?;
            bail!("broken off");
        }
    }
}

/// Returns when the terminal or an operator wants this program to end.
async fn stopped() -> anyhow::Result<()> {
    let mut tasks = Tasks::new(CancellationToken::new());
    lifecycle::shutdown_on_signal(&mut tasks)?;
    tasks.shutdown().cancelled().await;
    Ok(())
}

#[expect(clippy::print_stderr, reason = "what a person must see")]
fn say_error(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}
