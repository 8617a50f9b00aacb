//! Command `log export`: the log as lines of JSON, for consumers without Kafka.
//!
//! Each line is an event in the JSON format of `CloudEvents`, with the attributes of a record on the
//! topic. Positions count within a shard, so each shard has its own file.

mod shard_file;

use std::{
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use clap::Args;
use indicatif::ProgressBar;
use linkledger_core::{
    cloud_event::PublishedEvent,
    event_store::{
        log::{
            self, PerShard,
            stored::{PositionRange, StoredEvent},
        },
        log_meta,
    },
    shard::{Position, Shard},
};
use serde::Serialize;
use sqlx::PgPool;

use super::{progress, shards};
use crate::admin::{AdminCommandOptions, parse_shard, print};
use shard_file::ShardFile;

/// Arguments of `log export`.
#[derive(Debug, Args)]
pub(super) struct Export {
    /// Folder with one file for each shard, `shard-00.ndjson` and so on. The export continues after
    /// the last complete line of each file.
    #[arg(long, value_name = "FOLDER", required_unless_present = "shard")]
    to: Option<PathBuf>,
    /// Export only this shard. Without `--to`, write its events to standard output.
    #[arg(long, value_name = "NUMBER", value_parser = parse_shard)]
    shard: Option<Shard>,
    /// Position of the shard after which the export to standard output begins.
    #[arg(long, value_name = "POSITION", default_value_t = 0, requires = "shard",
          conflicts_with = "to", value_parser = clap::value_parser!(i64).range(0..))]
    after: Position,
    #[command(flatten)]
    options: AdminCommandOptions,
}

/// Result of an export.
#[derive(Debug, Serialize)]
struct Exported {
    epoch: i32,
    events: u64,
    seconds: f64,
    shards: Vec<ExportedShard>,
}

#[derive(Debug, Serialize)]
struct ExportedShard {
    shard: i16,
    file: PathBuf,
    /// Number of added events.
    events: u64,
    /// Last position in the file.
    position: Position,
}

/// Log at the start of the export. Later events are left to the next export.
#[derive(Debug, Clone)]
struct Log {
    pool: PgPool,
    epoch: i32,
    heads: PerShard<Position>,
    bar: ProgressBar,
}

pub(super) async fn run(export: Export) -> anyhow::Result<()> {
    let pool = export.options.reader_pool(shards::SHARDS_AT_ONCE).await?;
    let epoch = log_meta::epoch(&pool)
        .await
        .context("cannot read the epoch")?;
    let heads = log::heads(&pool).await.context("cannot read the heads")?;
    let log = Log {
        pool,
        epoch,
        heads,
        bar: ProgressBar::hidden(),
    };
    match (export.to, export.shard) {
        (Some(folder), only) => to_folder(log, folder, only, &export.options).await,
        (None, Some(shard)) => to_standard_output(log, shard, export.after).await,
        (None, None) => bail!("give a folder with --to, or a shard with --shard"),
    }
}

async fn to_folder(
    mut log: Log,
    folder: PathBuf,
    only: Option<Shard>,
    options: &AdminCommandOptions,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let begun = Instant::now();
    let chosen = shards::chosen(only, &log.heads);
    let events: Position = chosen.iter().map(|shard| log.heads[shard.index()]).sum();
    log.bar = progress::bar(events.unsigned_abs());
    let folder = Arc::new(folder);
    let done = shards::for_each(chosen, |shard| {
        export_shard(log.clone(), shard, Arc::clone(&folder))
    })
    .await;
    log.bar.finish_and_clear();
    let shards = done?;
    let exported = Exported {
        epoch: log.epoch,
        events: shards.iter().map(|shard| shard.events).sum(),
        seconds: begun.elapsed().as_secs_f64(),
        shards,
    };
    let text = exported.text(&folder, begun.elapsed());
    print(options.json, &exported, &text)
}

async fn export_shard(
    log: Log,
    shard: Shard,
    folder: Arc<PathBuf>,
) -> anyhow::Result<ExportedShard> {
    let file = ShardFile::open(&folder, shard, log.epoch)?;
    file.check_belongs_to(&log.pool).await?;
    let after = file.position();
    let head = log.heads[shard.index()];
    if after > head {
        bail!(
            "{} has positions up to {after}, but the log ends at {head}: the file belongs to \
             another log; export into another folder",
            file.path().display()
        );
    }
    log.bar.inc(after.unsigned_abs());
    let written = log.write(shard, after, &mut file.append()).await;
    let synced = written.and_then(|()| Ok(file.sync()?));
    synced.with_context(|| format!("cannot export to {}", file.path().display()))?;
    Ok(ExportedShard {
        shard: shard.number(),
        file: file.path().to_owned(),
        events: head.abs_diff(after),
        position: head,
    })
}

async fn to_standard_output(mut log: Log, shard: Shard, after: Position) -> anyhow::Result<()> {
    let head = log.heads[shard.index()];
    if after > head {
        bail!("shard {shard} ends at position {head}, before {after}");
    }
    if !io::stdout().is_terminal() {
        log.bar = progress::bar(head.abs_diff(after));
    }
    let written = log.write(shard, after, &mut io::stdout()).await;
    log.bar.finish_and_clear();
    match written {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        written => written.context("cannot export"),
    }
}

/// Returns true if the reader of standard output has closed the pipe, as `head` does.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

impl Log {
    /// Writes the events of the shard after a position, up to the head, one line each. No transaction
    /// is open while the sink blocks.
    async fn write(
        &self,
        shard: Shard,
        mut after: Position,
        sink: &mut impl Write,
    ) -> anyhow::Result<()> {
        let up_to = self.heads[shard.index()];
        let mut rest = PositionRange {
            shard,
            after,
            up_to,
        };
        while let Some(events) = shards::next_events(&self.pool, &mut rest).await? {
            let mut lines = String::new();
            for event in events.iter() {
                let event = event.context("cannot read the log")?;
                if event.position != after + 1 {
                    break;
                }
                after = event.position;
                let line = self.line(shard, &event);
                lines += &line.with_context(|| format!("the event at position {after}"))?;
                lines.push('\n');
                self.bar.inc(1);
            }
            sink.write_all(lines.as_bytes())?;
            if after != rest.after {
                sink.flush()?;
                bail!(
                    "there is no event at position {}; run `command-api log verify`",
                    after + 1
                );
            }
        }
        Ok(sink.flush()?)
    }

    fn line(&self, shard: Shard, event: &StoredEvent<'_>) -> serde_json::Result<String> {
        PublishedEvent::new(event.to_recorded(shard), self.epoch).to_json()
    }
}

impl Exported {
    fn text(&self, folder: &Path, took: Duration) -> String {
        let Self { events, epoch, .. } = self;
        let positions: Position = self.shards.iter().map(|shard| shard.position).sum();
        format!(
            "exported in {:.1} s ({} events/s): new events {events}; {} has {positions}, epoch {epoch}",
            took.as_secs_f64(),
            progress::per_second(*events, took),
            folder.display()
        )
    }
}
