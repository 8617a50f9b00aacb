//! Command `log export`: the log as lines of JSON, for consumers without Kafka.
//!
//! Each line is an event in the JSON format of `CloudEvents`, with the attributes of a record on the
//! topic. Positions count within a shard, so each shard has its own file.

mod shard_file;

use std::{
    io::{self, IsTerminal as _, Write},
    path::PathBuf,
    time::Instant,
};

use anyhow::{Context as _, bail};
use clap::Args;
use indicatif::ProgressBar;
use linkledger_core::{
    cloud_event::PublishedEvent,
    shard::{Position, Shard},
};
use linkledger_event_store::{
    log::{self, PerShard, stored::PositionRange},
    log_meta,
};
use linkledger_service::number_format::per_second;
use serde::Serialize;
use sqlx::PgPool;

use super::shards;
use crate::admin::{AdminCommandOptions, print};
use shard_file::ShardFile;

/// Arguments of `log export`.
#[derive(Debug, Args)]
pub(super) struct Export {
    /// Folder with one file for each shard, `shard-00.ndjson` and so on. The export continues after
    /// the last complete line of each file.
    #[arg(long, value_name = "FOLDER", required_unless_present = "shard")]
    to: Option<PathBuf>,
    /// Export only this shard. Without `--to`, write its events to standard output.
    #[arg(long, value_name = "NUMBER")]
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
    log.bar = shards::bar(events.unsigned_abs());
    let done = shards::for_each(chosen, |shard| {
        export_shard(log.clone(), shard, folder.clone())
    })
    .await;
    log.bar.finish_and_clear();
    let (epoch, shards, took) = (log.epoch, done?, begun.elapsed());
    let events: u64 = shards.iter().map(|shard| shard.events).sum();
    let positions: Position = shards.iter().map(|shard| shard.position).sum();
    let seconds = took.as_secs_f64();
    let text = format!(
        "exported in {seconds:.1} s ({} events/s): new events {events}; {} has {positions}, epoch {epoch}",
        per_second(events, took),
        folder.display()
    );
    let exported = Exported {
        epoch,
        events,
        seconds,
        shards,
    };
    print(options.json, &exported, &text)
}

async fn export_shard(log: Log, shard: Shard, folder: PathBuf) -> anyhow::Result<ExportedShard> {
    let file = ShardFile::open(&folder, shard, log.epoch)?;
    file.check_belongs_to(&log.pool).await?;
    let after = file.position();
    let head = log.heads[shard.index()];
    if after > head {
        bail!(
            "{} has positions up to {after}, but the log ends at {head}: the file belongs to \
             another log; export into another folder",
            file.path.display()
        );
    }
    log.bar.inc(after.unsigned_abs());
    let written = log.write(shard, after, &mut &file.file).await;
    let synced = written.and_then(|()| Ok(file.file.sync_data()?));
    synced.with_context(|| format!("cannot export to {}", file.path.display()))?;
    Ok(ExportedShard {
        shard: shard.number(),
        file: file.path,
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
        log.bar = shards::bar(head.abs_diff(after));
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
        let mut rest = PositionRange {
            shard,
            after,
            up_to: self.heads[shard.index()],
        };
        while let Some(events) = shards::next_events(&self.pool, &mut rest).await? {
            let mut lines = String::new();
            for event in events.iter() {
                let event = event.context("cannot read the log")?;
                if event.position != after + 1 {
                    break;
                }
                after = event.position;
                let event = PublishedEvent::new(event.to_recorded(shard), self.epoch);
                let line = event.to_json();
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
}
