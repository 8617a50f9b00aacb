//! `linkledger import FILE`: a link for each line, through the API, once however often it is run.
//!
//! No state is kept: the idempotency key of a line follows from the file's name, the line and how
//! often it stood there before, so the service itself knows what was done already.

mod client;

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    io::Write as _,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use indicatif::{ProgressBar, ProgressStyle};
use linkledger_core::config::Secret;
use uuid::Uuid;

use crate::{data_folder::DataFolder, environment::Environment};
use client::{Client, Created};

/// Namespace of the keys; a contract: another one would create every link again.
const KEY_NAMESPACE: Uuid = Uuid::from_u128(0x6b8f_2c1e_74d3_4a0b_9c55_0e1d_7f3a_92b6);
/// Exit code when lines were refused and `--strict` was given.
const EXIT_REFUSED: u8 = 3;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// What to import, and how.
#[derive(Debug, Args)]
pub struct Import {
    /// A file with one address on each line; empty lines are passed over.
    pub file: PathBuf,
    /// Requests under way at once.
    #[arg(long, default_value = "64")]
    pub concurrency: NonZeroUsize,
    /// Exit with 3 when a line was refused.
    #[arg(long)]
    pub strict: bool,
    /// Address of the API. Default: that of the stack in the data folder.
    #[arg(long, env = "LINKLEDGER_API_URL")]
    pub api_url: Option<String>,
    /// The API key. Default: that of the stack in the data folder.
    #[arg(long, env = "LINKLEDGER_API_KEY", hide_env_values = true)]
    pub api_key: Option<Secret>,
}

/// A line and the key under which its link is created.
struct Line {
    key: Uuid,
    destination: String,
}

/// What became of the lines.
#[derive(Debug, Default)]
struct Summary {
    created: u64,
    existing: u64,
    refused: BTreeMap<String, u64>,
}

/// Imports the file and prints what became of its lines.
///
/// # Errors
/// When the file can't be read, or the API does not answer or refuses the key.
pub async fn run(import: &Import, data_dir: &Path) -> anyhow::Result<ExitCode> {
    let lines = read(&import.file)?;
    let client = client(import, data_dir)?;
    let bar = progress_bar(lines.len());
    let begun = Instant::now();
    let summary = stream::iter(lines)
        .map(|line| create(&client, line))
        .buffer_unordered(import.concurrency.get())
        .try_fold(Summary::default(), |mut summary, created| {
            bar.inc(1);
            match created {
                Created::Now => summary.created += 1,
                Created::Before => summary.existing += 1,
                Created::Refused(code) => *summary.refused.entry(code).or_default() += 1,
            }
            std::future::ready(Ok(summary))
        })
        .await;
    bar.finish_and_clear();
    let summary = summary.context("the import stopped; run it again to go on")?;
    print(&summary, begun.elapsed())?;
    let is_failure = import.strict && !summary.refused.is_empty();
    Ok(if is_failure {
        ExitCode::from(EXIT_REFUSED)
    } else {
        ExitCode::SUCCESS
    })
}

async fn create(client: &Client, line: Line) -> anyhow::Result<Created> {
    client.create(line.key, &line.destination).await
}

fn client(import: &Import, data_dir: &Path) -> anyhow::Result<Client> {
    let (url, key) = match (&import.api_url, &import.api_key) {
        (Some(url), Some(key)) => (url.clone(), key.clone()),
        (url, key) => {
            if !data_dir.is_dir() {
                bail!(
                    "there is no {}; start the stack, or set LINKLEDGER_API_URL and \
                     LINKLEDGER_API_KEY",
                    data_dir.display()
                );
            }
            let environment = Environment::read(&DataFolder::open(data_dir)?)?;
            let of_stack = |name| environment.get(name).map(str::to_owned);
            let url = url.clone().or_else(|| of_stack("API_URL"));
            let key = key
                .clone()
                .or_else(|| of_stack("API_KEY").map(Secret::from));
            (
                url.context("API_URL is not known")?,
                key.context("API_KEY is not known")?,
            )
        }
    };
    Client::new(&url, &key)
}

fn read(path: &Path) -> anyhow::Result<Vec<Line>> {
    let bytes = std::fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let text = String::from_utf8(bytes)
        .map_err(|error| line_of(error.as_bytes(), error.utf8_error().valid_up_to()))
        .map_err(|line| anyhow::anyhow!("{}: line {line} is not UTF-8", path.display()))?;
    let mut occurrences: HashMap<&str, u32> = HashMap::new();
    Ok(text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let occurrence = occurrences.entry(line).or_default();
            *occurrence += 1;
            Line {
                key: key(&name, line, *occurrence),
                destination: line.to_owned(),
            }
        })
        .collect())
}

fn line_of(bytes: &[u8], offset: usize) -> usize {
    bytes[..offset].split(|byte| *byte == b'\n').count()
}

/// The same for the n-th occurrence of a line in a file of that name, whenever and wherever.
fn key(file_name: &str, line: &str, occurrence: u32) -> Uuid {
    Uuid::new_v5(
        &KEY_NAMESPACE,
        format!("{file_name}\n{line}\n{occurrence}").as_bytes(),
    )
}

fn progress_bar(lines: usize) -> ProgressBar {
    let bar = ProgressBar::new(lines as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} links  {per_sec}  {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(PROGRESS_INTERVAL);
    bar
}

fn print(summary: &Summary, took: Duration) -> anyhow::Result<()> {
    let refused: u64 = summary.refused.values().sum();
    let total = summary.created + summary.existing + refused;
    let mut text = format!(
        "{total} lines in {:.1} s: {} created, {} created before, {refused} refused\n",
        took.as_secs_f64(),
        summary.created,
        summary.existing
    );
    for (code, count) in &summary.refused {
        writeln!(text, "  {count:>8}  {code}").context("can't print")?;
    }
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("can't print")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_line_is_a_contract() {
        let expected = Uuid::parse_str("20e926f6-cd3c-5a9d-a617-9461c53f4794").unwrap();
        assert_eq!(key("links.txt", "https://example.com/", 1), expected);
    }

    #[test]
    fn equal_lines_have_keys_of_their_own_that_stay_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("links.txt");
        std::fs::write(
            &path,
            "https://a.example\r\n\n  \nhttps://b.example\nhttps://a.example\n",
        )
        .unwrap();
        let lines = read(&path).unwrap();
        let destinations: Vec<_> = lines.iter().map(|line| line.destination.as_str()).collect();
        assert_eq!(
            destinations,
            [
                "https://a.example",
                "https://b.example",
                "https://a.example"
            ]
        );
        assert_ne!(lines[0].key, lines[2].key);
        let again = read(&path).unwrap();
        assert!(lines.iter().zip(&again).all(|(a, b)| a.key == b.key));
    }

    #[test]
    fn a_file_that_is_not_text_is_refused_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("links.txt");
        std::fs::write(&path, b"https://a.example\n\xff\n").unwrap();
        let error = read(&path).err().unwrap().to_string();
        assert!(error.ends_with("links.txt: line 2 is not UTF-8"), "{error}");
    }
}
