//! `linkledger import FILE`: a link for each line, through the API, once however often it is run.
//!
//! No state is kept: the idempotency key of a line follows from the file's name, the line and how
//! often it stood there before, so the service itself knows what was done already.

mod lines;
mod summary;

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::Args;
use futures::{StreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    client::{Call, Client, Failure, Patience, connection::Connection},
    output::{note, print},
};
use lines::Line;
use summary::{Outcome, Summary};

const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// What to import, and how.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// A file with one address on each line; empty lines are passed over.
    file: PathBuf,
    /// Requests under way at once.
    #[arg(long, value_name = "REQUESTS", default_value = "64")]
    concurrency: NonZeroUsize,
    /// Write each refused line to this file: number, code, reason and the line, with tabs between.
    #[arg(long, value_name = "FILE")]
    refused: Option<PathBuf>,
    /// Exit with 1 when a line was refused.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Imports the file and prints what became of its lines.
pub(crate) async fn run(import: Import) -> anyhow::Result<()> {
    let lines = lines::read(&import.file)?;
    if let Some(path) = &import.refused {
        if is_same_file(path, &import.file) {
            bail!("--refused would overwrite the file that is imported");
        }
        // An import that can't say at its end what it was told to say is better not begun.
        summary::write_refused(path, &[])?;
    }
    let target = import.connection.target()?;
    let bar = progress_bar(lines.len());
    let notice = {
        let bar = bar.clone();
        move |text: &str| bar.suspend(|| note(text))
    };
    let client = Client::new(target, Patience::BULK, notice)?;
    let begun = Instant::now();
    let (mut summary, end) = create_all(&client, lines, import.concurrency, &bar).await;
    bar.finish_and_clear();
    summary.refused.sort_by_key(|refused| refused.number);
    if let Some(path) = &import.refused {
        summary::write_refused(path, &summary.refused)?;
    }
    summary.note_refused(import.refused.is_some());
    print(&summary.text(begun.elapsed()))?;
    end.context("the import stopped; run it again to go on")?;
    match summary.refused.len() {
        0 => Ok(()),
        _ if !import.strict => Ok(()),
        1 => bail!("1 line was refused"),
        count => bail!("{count} lines were refused"),
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Until the lines are at their end, or something stands in the way of all of them.
async fn create_all(
    client: &Client,
    lines: Vec<Line>,
    concurrency: NonZeroUsize,
    bar: &ProgressBar,
) -> (Summary, Result<(), Failure>) {
    let mut summary = Summary::default();
    let mut outcomes = stream::iter(lines)
        .map(|line| create(client, line))
        .buffer_unordered(concurrency.get());
    while let Some(outcome) = outcomes.next().await {
        bar.inc(1);
        match outcome {
            Ok(outcome) => summary.count(outcome),
            Err(failure) => return (summary, Err(failure)),
        }
    }
    (summary, Ok(()))
}

/// A failure concerns more than this line: the request as we make it, the key, the account.
async fn create(client: &Client, line: Line) -> Result<Outcome, Failure> {
    let call = Call::create_link(line.key, &line.destination, None);
    match client.send(&call).await {
        Ok(answer) if answer.header("idempotent-replayed").is_some() => Ok(Outcome::Existing),
        Ok(_) => Ok(Outcome::Created),
        Err(Failure::Refused(refusal)) if matches!(refusal.status, 402 | 409 | 413 | 422) => {
            Ok(Outcome::Refused(line, *refusal))
        }
        Err(failure) => Err(failure),
    }
}

fn progress_bar(lines: usize) -> ProgressBar {
    let bar = ProgressBar::new(lines as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} links  {per_sec}  {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(PROGRESS_INTERVAL);
    bar
}
