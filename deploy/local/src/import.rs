//! `linkledger import FILE`: creates the links of a file, through the HTTP API, in batches.
//!
//! The import keeps no state of its own. The idempotency key of a link is computed from the name of
//! the file, the line, and the number of equal lines before the line. So a second run of the same
//! file sends the same keys, and the service creates only the links that are missing.

mod adapt;
mod files;
mod formats;
mod lines;
pub(crate) mod link;
mod report;
mod sending;
mod summary;

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use linkledger_core::figures::counted;

use crate::{
    client::{ApiClient, RetryPolicy, batch::BatchMode, connection::ConnectionOptions},
    options::whole_number,
    output::{Refused, note, print},
};
pub(crate) use adapt::last_segment_of as slug_of;
use formats::SourceFormat;
use lines::ImportFile;
use sending::ImportOutcome;
use summary::ImportSummary;

/// Interval at which a progress bar is drawn.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Options of `linkledger import`.
#[derive(Debug, Args)]
pub(crate) struct ImportOptions {
    /// File of links: one destination address (http or https) on each line, CSV with a header, an
    /// export of linkledger, or an export of another product (--from).
    file: PathBuf,
    /// Format of the file. Default: addresses, csv or ndjson, as the first line shows.
    #[arg(long, value_name = "FORMAT")]
    from: Option<SourceFormat>,
    /// Create nothing; show what would be created or refused, and its cost in credits.
    #[arg(long)]
    dry_run: bool,
    /// Number of requests that are sent at the same time, each with up to 100 lines.
    #[arg(long, value_name = "REQUESTS", default_value = "4",
          value_parser = whole_number(NonZeroUsize::MIN..=NonZeroUsize::MAX))]
    concurrency: NonZeroUsize,
    /// Write line number, short address and status of each line to this file, as CSV; not with
    /// --dry-run.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    out: Option<PathBuf>,
    /// Write each refused line to this file, and not to standard error: line number, error code, reason
    /// and address, separated by tabs.
    #[arg(long, value_name = "FILE")]
    refused: Option<PathBuf>,
    /// Exit with code 6 if a line was refused.
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Imports the file, and prints how many links were created, existed before, or were refused.
pub(crate) async fn run(import: ImportOptions) -> anyhow::Result<()> {
    let file = lines::read(&import.file, import.from)?;
    import.check_output_files()?;
    let target = import.connection.target()?;
    let bar = progress_bar(file.lines.len());
    let notice = {
        let bar = bar.clone();
        move |text: &str| bar.suspend(|| note(text))
    };
    let client = ApiClient::new(target, RetryPolicy::BULK, notice)?;
    let begun = Instant::now();
    let mode = import.mode();
    let mut outcome = sending::send_all(&client, &file.lines, mode, import.concurrency, &bar).await;
    if mode == BatchMode::DryRun && outcome.failure.is_none() {
        outcome.refuse_repeated_slugs_and_external_ids(&file.lines);
    }
    bar.finish_and_clear();
    let reported = import.report(&file, &outcome, begun.elapsed());
    let summary = ImportSummary::of(&outcome);
    let (refused, unpaid) = (summary.refused(), summary.unpaid());
    let missing_credits = outcome.missing_credits();
    if let Some(failure) = outcome.failure {
        if let Err(error) = reported {
            note(&format!("{error:#}"));
        }
        return Err(anyhow::Error::new(failure).context(import.advice()));
    }
    reported?;
    if mode == BatchMode::DryRun && missing_credits > 0 {
        let advice = "the balance does not cover every link; ask the operator for credits";
        return Err(Refused(advice.to_owned()).into());
    }
    match refused {
        0 => Ok(()),
        _ if unpaid > 0 => {
            let advice = "the credits ran out; ask the operator for credits, and run the same command again \
                          to create the missing links";
            Err(Refused(advice.to_owned()).into())
        }
        _ if !import.strict => Ok(()),
        1 => Err(Refused("1 line was refused".to_owned()).into()),
        count => Err(Refused(format!("{} were refused", counted(count, "line"))).into()),
    }
}

impl ImportOptions {
    const fn mode(&self) -> BatchMode {
        if self.dry_run {
            BatchMode::DryRun
        } else {
            BatchMode::Partial
        }
    }

    const fn advice(&self) -> &'static str {
        if self.dry_run {
            "the dry run stopped, so the counts and the cost are not whole; run the same command again"
        } else {
            "the import stopped; run the same command again to create the missing links"
        }
    }

    /// Checks the files that are written at the end: a folder that cannot be written to is an error
    /// before the first link.
    fn check_output_files(&self) -> anyhow::Result<()> {
        if let Some(path) = &self.refused {
            files::prepare("--refused", path, &[&self.file])?;
        }
        if let Some(path) = &self.out {
            let others = [Some(&self.file), self.refused.as_ref()];
            let others: Vec<&Path> = others.into_iter().flatten().map(PathBuf::as_path).collect();
            files::prepare("--out", path, &others)?;
        }
        Ok(())
    }

    /// Writes the files, and prints the summary.
    fn report(
        &self,
        file: &ImportFile,
        outcome: &ImportOutcome,
        took: Duration,
    ) -> anyhow::Result<()> {
        match &self.refused {
            Some(path) => files::write_refused(path, &file.lines, outcome)?,
            None => summary::note_refused(file, outcome),
        }
        if let Some(path) = &self.out {
            files::write_map(path, &file.lines, outcome)?;
        }
        if let Some(warning) = file.report.missing_links_warning(file.lines.len()) {
            note(&format!("warning: {warning}"));
        }
        let summary = ImportSummary::of(outcome).text(outcome, self.mode(), took);
        print(&(summary + &file.report.text()))
    }
}

fn progress_bar(lines: usize) -> ProgressBar {
    let bar = ProgressBar::new(lines as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} links  {per_sec}  {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(PROGRESS_INTERVAL);
    bar
}
