//! The command line: one command for each question, and one for all questions.

use std::{io::Write as _, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand};
use linkledger_service::lifecycle::{self, Tasks};
use tokio_util::sync::CancellationToken;

use crate::{
    answer::QuestionAnswer,
    bare_redirect::BareRedirect,
    bench::{BenchContext, BenchOptions},
    data_set::DataSet,
    questions::{DetailedLinks, Question},
    report,
    running_stack::RunningStack,
    server::BenchServer,
};

/// Measure how fast linkledger is, in ratios to Postgres and axum on the same machine.
///
/// Exits with 1 if a question can't be answered. The table names the reached and the missed
/// targets; a missed target does not change the exit code, since another machine may be busier.
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
    /// Make and verify the missing large data sets. Without this command, the first question that
    /// needs a data set makes the data set.
    Prepare {
        /// Print the addresses of the data sets, and keep the server running until Ctrl-C.
        #[arg(long)]
        hold: bool,
    },
    /// Ask every question, one after the other, and print one table. Exits with 1 if a question
    /// can't be answered, not if a target is missed.
    All,
    /// Create links on a running stack for --seconds, and print rate and latencies.
    Load(RunningStack),
    /// Start a stack with a million links of one account, print the address of the API and the API key, and keep the
    /// stack running until Ctrl-C.
    ServeLinks,
    /// Serve the baseline of the redirects; the question starts this command itself.
    #[command(hide = true)]
    BareRedirect(BareRedirect),
    #[command(flatten)]
    One(Question),
}

/// Runs the command in the arguments of the process.
pub async fn run() -> ExitCode {
    let BenchCommandLine { options, command } = BenchCommandLine::parse();
    let done = match command {
        BenchCommand::Prepare { hold } => Box::pin(prepare(&options, hold)).await.map(|()| true),
        BenchCommand::Load(stack) => stack.load(options.duration()).await.map(|()| true),
        BenchCommand::ServeLinks => Box::pin(serve_links(options)).await.map(|()| true),
        BenchCommand::BareRedirect(bare) => serve(bare).await.map(|()| true),
        BenchCommand::All => unless_stopped(Box::pin(ask(options, Question::ALL))).await,
        BenchCommand::One(question) => unless_stopped(Box::pin(ask(options, &[question]))).await,
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

/// Serves the baseline of the redirects, on separate threads.
async fn serve(bare: BareRedirect) -> anyhow::Result<()> {
    tokio::task::spawn_blocking(|| bare.serve()).await?
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
    let server = unless_stopped(Box::pin(prepared(options, hold))).await?;
    if hold {
        stopped().await?;
    }
    server.stop().await
}

/// Starts a server with all data sets. Prints the addresses of the data sets if `hold` is set.
async fn prepared(options: &BenchOptions, hold: bool) -> anyhow::Result<BenchServer> {
    let server = BenchServer::start(&options.data_dir).await?;
    for set in DataSet::ALL {
        let name = set.prepare(&server).await?;
        if hold {
            writeln!(std::io::stdout(), "{}", server.url(&name))?;
        }
    }
    Ok(server)
}

/// Asks the questions. Returns true if all questions were answered and written; a question that
/// fails does not stop the other questions.
async fn ask(options: BenchOptions, questions: &[Question]) -> anyhow::Result<bool> {
    let bench = BenchContext::start(options).await?;
    let mut answers: Vec<QuestionAnswer> = Vec::new();
    let mut is_complete = true;
    for question in questions {
        let done = answer(&bench, *question, &mut answers).await;
        // The databases that the question leaves behind would take the disk space of the next
        // question.
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
    bench: &BenchContext,
    question: Question,
    answers: &mut Vec<QuestionAnswer>,
) -> anyhow::Result<()> {
    let answer = question.ask(bench).await.with_context(|| {
        let logs = bench.server.data_dir().display();
        format!("the question {question:?} can't be answered; the programs' logs are in {logs}")
    })?;
    let written = report::write(&bench.options.out, &answer);
    answers.push(answer);
    written
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
