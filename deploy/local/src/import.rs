//! `linkledger import FILE`: creates the links of a file, through the HTTP API, in batches.
//!
//! The import keeps no state of its own. The idempotency key of a link is computed from the name of
//! the file, the line, and the number of equal lines before the line. So a second run of the same
//! file sends the same keys, and the service creates only the links that are missing.

mod blank;
mod decoding;
mod destination;
mod expiry;
mod files;
mod formats;
mod html;
mod labels;
mod lines;
pub(crate) mod link;
mod missing_header;
mod old_address;
mod reached_links;
mod record;
mod report;
mod rule;
mod sending;
mod summary;

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use linkledger_service::number_format::{counted, grouped};

use crate::{
    client::{ApiClient, RetryPolicy, batch::BatchMode, connection::ConnectionOptions},
    options::whole_number,
    output::{Refused, note, print},
};
use files::WrittenLines;
use formats::SourceFormat;
use lines::ImportFile;
pub(crate) use link::slug_of_export;
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
    /// Format of the file. Default: the format that the begin of the file shows.
    #[arg(long, value_name = "FORMAT")]
    from: Option<SourceFormat>,
    /// Create nothing; show what would be created or refused, and its cost in credits.
    #[arg(long)]
    dry_run: bool,
    /// Number of requests that are sent at the same time, each with up to 100 lines.
    #[arg(long, value_name = "REQUESTS", default_value = "4",
          value_parser = whole_number(NonZeroUsize::MIN..=NonZeroUsize::MAX))]
    concurrency: NonZeroUsize,
    /// Write to this CSV file what became of each line: old address, short address, status, reason of a
    /// refusal, and each change.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the refused lines to this CSV file, and not to standard error; columns as of --out. A copy of the file can
    /// be mended and imported.
    #[arg(long, value_name = "FILE")]
    refused: Option<PathBuf>,
    /// Exit with code 0, not 6, although lines were refused.
    #[arg(long)]
    allow_refused: bool,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Imports the file, and prints how many links were created, existed before, or were refused.
pub(crate) async fn run(import: ImportOptions) -> anyhow::Result<()> {
    let mut file = lines::read(&import.file, import.from)?;
    import.check_output_files()?;
    let target = import.connection.target()?;
    let bar = progress_bar(file.lines.len());
    let notice = {
        let bar = bar.clone();
        move |text: &str| bar.suspend(|| note(text))
    };
    let client = ApiClient::new(target, RetryPolicy::BULK, notice)?;
    let begun = Instant::now();
    let (mode, concurrency) = (import.mode(), import.concurrency);
    let mut outcome = sending::send_all(&client, &mut file.lines, mode, concurrency, &bar).await;
    bar.finish_and_clear();
    let reported = import.report(&file, &outcome, begun.elapsed());
    if let Some(failure) = outcome.failure.take() {
        if let Err(error) = reported {
            note(&format!("{error:#}"));
        }
        return Err(anyhow::Error::new(failure).context(import.advice()));
    }
    reported?;
    import.check_refused(&file, &outcome)
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

    /// Refuses an import whose links are not all there: a script must not take it for done.
    fn check_refused(&self, file: &ImportFile, outcome: &ImportOutcome) -> anyhow::Result<()> {
        let summary = ImportSummary::of(outcome);
        let reason = if self.dry_run && outcome.missing_credits() > 0 {
            "the balance does not cover every link; ask the operator for credits".to_owned()
        } else if summary.unpaid() > 0 {
            "the credits ran out; ask the operator for credits, and run the same command again to create \
             the missing links"
                .to_owned()
        } else if let Some(missing) = file.missing() {
            self.lack(missing, summary.refused())
        } else if summary.refused() > 0 && !self.allow_refused {
            let refused = grouped(summary.refused().cast_signed());
            let all = counted(file.lines.len() as u64, file.unit);
            let verb = self.verb(summary.refused());
            let advice = self.mending();
            format!(
                "{refused} of {all} {verb} refused; {advice}, or accept the refusals with --allow-refused"
            )
        } else {
            return Ok(());
        };
        Err(Refused(reason).into())
    }

    /// Returns the reason after an import of a file that lacks links of its source.
    fn lack(&self, missing: u64, refused: u64) -> String {
        let missing = counted(missing, "link");
        let others = match (self.dry_run, refused) {
            (true, 0) => String::new(),
            (false, 0) => ", the others are done".to_owned(),
            (_, refused) => {
                let count = grouped(refused.cast_signed());
                format!(", and {count} of the others {} refused", self.verb(refused))
            }
        };
        let mending = if refused > 0 && !self.allow_refused {
            format!("; for what {} refused, {}", self.verb(1), self.mending())
        } else {
            String::new()
        };
        format!(
            "the file lacks {missing} of its source{others}; append what is missing, or, if the total of the source \
             is wrong, correct it in the last page of the file, and run the same command again{mending}"
        )
    }

    /// Returns the verb before "refused".
    const fn verb(&self, refused: u64) -> &'static str {
        match (self.dry_run, refused) {
            (true, _) => "would be",
            (false, 1) => "was",
            (false, _) => "were",
        }
    }

    /// Returns the advice after refusals.
    fn mending(&self) -> String {
        match &self.refused {
            Some(refused) if !self.dry_run => format!(
                "mend a copy of {} and import that (the same command writes the file again)",
                refused.display()
            ),
            Some(_) | None => "mend the file and run the same command again".to_owned(),
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
        let write =
            |path: &Path, written| files::write(path, written, &file.lines, outcome, self.mode());
        match &self.refused {
            Some(path) => write(path, WrittenLines::Refused)?,
            None => summary::note_refused(file, outcome),
        }
        if let Some(path) = &self.out {
            write(path, WrittenLines::All)?;
        }
        if let Some(product) = &file.recognised {
            note(&format!("the file was taken for --from {product}"));
        }
        for warning in file.warnings() {
            note(&format!("warning: {warning}"));
        }
        let summary = ImportSummary::of(outcome).text(outcome, self.mode(), took);
        print(&(report::text(file) + &summary))
    }
}

fn progress_bar(lines: usize) -> ProgressBar {
    let bar = ProgressBar::new(lines as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} links  {per_sec}  {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(PROGRESS_INTERVAL);
    bar
}
