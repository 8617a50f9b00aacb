//! `linkledger export`: writes all links of the account, in the order of their creation.

mod part_file;
mod row;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use linkledger_service::number_format::counted;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    client::{ApiCall, ApiClient, CallFailure, RetryPolicy, connection::ConnectionOptions},
    import::PROGRESS_INTERVAL,
    output::{WrongUse, note, print},
    paging::PAGE_LIMIT_MAX,
};
use part_file::{ExportProgress, PartFile};
use row::{ExportedLink, LinePlace, LinkClicks};

/// Number of requests for clicks that are sent at the same time.
const CLICK_REQUESTS: usize = 4;

/// Code of a range that begins after its end.
const RANGE_EMPTY: &str = "range_empty";

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Options of `linkledger export`.
#[derive(Debug, Args)]
pub(crate) struct ExportOptions {
    /// Form of the export.
    #[arg(long, value_name = "FORMAT", default_value = "ndjson")]
    format: ExportFormat,
    /// Begin CSV with a byte order mark, by which spreadsheets know UTF-8; imports leave it out.
    #[arg(long)]
    bom: bool,
    /// Add the clicks, bots and visitors of each link since its creation; one request for each link.
    #[arg(long)]
    with_clicks: bool,
    /// Write to this file, and continue where an export to this file was interrupted. Default: standard
    /// output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// Form of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One JSON object on each line.
    Ndjson,
    /// CSV with a header.
    Csv,
}

/// Place that an export is written to.
enum ExportTarget {
    Stdout,
    File(PartFile),
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct ClicksDocument {
    totals: LinkClicks,
}

/// Exports the links, to the file or to standard output.
pub(crate) async fn run(export: ExportOptions) -> anyhow::Result<()> {
    let target = export.connection.target()?;
    let header = export.header()?;
    let (to, mut progress) = match &export.out {
        None => {
            print(&header)?;
            (ExportTarget::Stdout, ExportProgress::default())
        }
        Some(path) => {
            let (api_url, key) = (target.api_url.as_str(), target.api_key.reveal());
            // Only the same export continues a part file: a hash of this text is in its name.
            let source = format!(
                "{api_url}\n{key}\n{:?}\n{}\n{}",
                export.format, export.with_clicks, export.bom
            );
            let (part, progress) = PartFile::open(path, &source, export.format, &header)?;
            note_continuation(&part, &progress);
            (ExportTarget::File(part), progress)
        }
    };
    let bar = progress_bar();
    let notice = {
        let bar = bar.clone();
        move |text: &str| bar.suspend(|| note(text))
    };
    let client = ApiClient::new(target, RetryPolicy::BULK, notice)?;
    bar.set_position(progress.links);
    let outcome = export.write_pages(&client, to, &mut progress, &bar).await;
    bar.finish_and_clear();
    let to = outcome.with_context(|| export.advice())?;
    match (to, &export.out) {
        (ExportTarget::File(part), Some(path)) => {
            part.complete(path)?;
            let links = counted(progress.links, "link");
            note(&format!("wrote {links} to {}", path.display()));
        }
        _ => note(&counted(progress.links, "link")),
    }
    Ok(())
}

fn note_continuation(part: &PartFile, progress: &ExportProgress) {
    if progress.links > 0 {
        note(&format!(
            "continuing {} after {}; delete it to begin again",
            part.path().display(),
            counted(progress.links, "link")
        ));
    }
}

impl ExportOptions {
    /// Returns the first line of the file.
    fn header(&self) -> anyhow::Result<String> {
        let header = self.format.header(self.with_clicks);
        match (self.bom, self.format) {
            (false, _) => Ok(header),
            (true, ExportFormat::Csv) => Ok(format!("{BYTE_ORDER_MARK}{header}")),
            (true, ExportFormat::Ndjson) => {
                let advice = "--bom is for spreadsheets, which read CSV: add --format csv";
                Err(WrongUse(advice.to_owned()).into())
            }
        }
    }

    fn advice(&self) -> &'static str {
        match self.out {
            Some(_) => "the export stopped; run the same command again to continue",
            None => "the export stopped; with --out FILE an export can be continued",
        }
    }

    /// Writes the pages of links that the export lacks.
    async fn write_pages(
        &self,
        client: &ApiClient,
        mut to: ExportTarget,
        progress: &mut ExportProgress,
        bar: &ProgressBar,
    ) -> anyhow::Result<ExportTarget> {
        let first = ApiCall::get(&["v1", "links"])
            .query("sort", Some("created_at".to_owned()))
            .query("created_from", progress.created_at.clone())
            .query("limit", Some(PAGE_LIMIT_MAX.to_string()));
        let mut cursor = None;
        loop {
            let call = first.clone().query("cursor", cursor.clone());
            let answer = client.send(&call).await?;
            let page: Page<'_> = client.read(&call, &answer)?;
            let mut links = Vec::new();
            for raw in page.items {
                let link: ExportedLink = serde_json::from_str(raw.get())
                    .map_err(|_| client.not_the_api(&call, answer.status))?;
                let place = LinePlace {
                    id: link.id.clone(),
                    created_at: link.created_at.clone(),
                };
                if progress.add(place) {
                    links.push((raw, link));
                }
            }
            to.write(&self.lines(client, &links).await?)?;
            bar.set_position(progress.links);
            match page.next_cursor {
                None => return Ok(to),
                // A list whose cursors repeat would never end.
                next if next == cursor => {
                    return Err(client.not_the_api(&call, answer.status).into());
                }
                next => cursor = next,
            }
        }
    }

    /// Returns the lines of links, in order.
    async fn lines(
        &self,
        client: &ApiClient,
        links: &[(&RawValue, ExportedLink)],
    ) -> anyhow::Result<String> {
        let line = |(raw, link): &(&RawValue, ExportedLink)| {
            let (raw, call) = (raw.get().to_owned(), clicks_call(link));
            async move {
                let answer = match client.send(&call).await {
                    // The clock of the writer is ahead of the reader's: the link is not yet created.
                    Err(CallFailure::Refused(refusal))
                        if refusal.code_and_detail().0 == RANGE_EMPTY =>
                    {
                        return anyhow::Ok((raw, LinkClicks::default()));
                    }
                    answer => answer?,
                };
                let document: ClicksDocument = client.read(&call, &answer)?;
                anyhow::Ok((raw, document.totals))
            }
        };
        let mut text = String::new();
        if self.with_clicks {
            let requests: Vec<_> = links.iter().map(line).collect();
            let clicks: Vec<_> = stream::iter(requests)
                .buffered(CLICK_REQUESTS)
                .try_collect()
                .await?;
            for ((raw, clicks), (_, link)) in clicks.iter().zip(links) {
                text.push_str(&self.format.line(raw, link, Some(*clicks))?);
            }
        } else {
            for (raw, link) in links {
                text.push_str(&self.format.line(raw.get(), link, None)?);
            }
        }
        Ok(text)
    }
}

/// Makes the call for the clicks of a link since its creation.
fn clicks_call(link: &ExportedLink) -> ApiCall {
    ApiCall::get(&["v1", "links", &link.id, "clicks"])
        .query("from", Some(link.created_at.clone()))
        .query("interval", Some("month".to_owned()))
}

impl ExportTarget {
    fn write(&mut self, lines: &str) -> anyhow::Result<()> {
        match self {
            Self::Stdout => print(lines),
            Self::File(part) => part.write(lines),
        }
    }
}

fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {pos} links  {per_sec}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(PROGRESS_INTERVAL);
    bar
}
