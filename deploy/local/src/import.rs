//! `linkledger import FILE`: creates a link for each line of a file, through the HTTP API.
//!
//! The import keeps no state of its own. The idempotency key of a line is computed from the name of
//! the file, the line, and the number of equal lines before the line. So a second run of the same
//! file sends the same keys, and the service creates only the links that are missing.

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
use serde_json::json;

use crate::{
    client::{ApiCall, ApiClient, CallFailure, RetryPolicy, connection::ConnectionOptions},
    options::whole_number,
    output::{note, print},
};
use lines::ImportLine;
use summary::{ImportSummary, LineOutcome};

const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Options of `linkledger import`.
#[derive(Debug, Args)]
pub(crate) struct ImportOptions {
    /// File with one destination address (http or https) on each line; empty lines are skipped.
    file: PathBuf,
    /// Number of requests that are sent at the same time.
    #[arg(long, value_name = "REQUESTS", default_value = "64",
          value_parser = whole_number(NonZeroUsize::MIN..=NonZeroUsize::MAX))]
    concurrency: NonZeroUsize,
    /// Write each refused line to this file: line number, error code, reason and the line itself,
    /// separated by tabs.
    #[arg(long, value_name = "FILE")]
    refused: Option<PathBuf>,
    /// Exit with code 1 if a line was refused.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Imports the file, and prints how many links were created, existed before, or were refused.
pub(crate) async fn run(import: ImportOptions) -> anyhow::Result<()> {
    let lines = lines::read(&import.file)?;
    if let Some(path) = &import.refused {
        if is_same_file(path, &import.file) {
            bail!("--refused names the file that is imported; name another file");
        }
        // An empty file is written before the import: a folder that cannot be written to is an
        // error before the first link, not after the last one.
        summary::write_refused(path, &[])?;
    }
    let target = import.connection.target()?;
    let bar = progress_bar(lines.len());
    let notice = {
        let bar = bar.clone();
        move |text: &str| bar.suspend(|| note(text))
    };
    let client = ApiClient::new(target, RetryPolicy::BULK, notice)?;
    let begun = Instant::now();
    let (mut summary, end) = create_all(&client, lines, import.concurrency, &bar).await;
    bar.finish_and_clear();
    summary.refused.sort_by_key(|refused| refused.number);
    if let Some(path) = &import.refused {
        summary::write_refused(path, &summary.refused)?;
    }
    summary.note_refused(import.refused.is_some());
    print(&summary.text(begun.elapsed()))?;
    end.context("the import stopped; run the same command again to create the missing links")?;
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

/// Creates the links of all lines. Stops at the first failure that concerns every line.
async fn create_all(
    client: &ApiClient,
    lines: Vec<ImportLine>,
    concurrency: NonZeroUsize,
    bar: &ProgressBar,
) -> (ImportSummary, Result<(), CallFailure>) {
    let mut summary = ImportSummary::default();
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

/// Creates the link of one line. An error concerns more than this line: the address of the API, the
/// API key or the account.
async fn create(client: &ApiClient, line: ImportLine) -> Result<LineOutcome, CallFailure> {
    let call = ApiCall::create_link(line.key, json!({ "destination_url": line.destination }));
    match client.send(&call).await {
        Ok(answer) if answer.header("idempotent-replayed").is_some() => Ok(LineOutcome::Existing),
        Ok(_) => Ok(LineOutcome::Created),
        Err(CallFailure::Refused(refusal)) if matches!(refusal.status, 402 | 409 | 413 | 422) => {
            Ok(LineOutcome::Refused(line, *refusal))
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
