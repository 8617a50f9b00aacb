//! Export file of one shard: its last event, and the check that the file belongs to this log.
//!
//! An interrupted export leaves complete lines, and perhaps an incomplete line at the end.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Seek as _, SeekFrom},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use linkledger_core::{
    id::EventId,
    shard::{Position, Shard},
};
use linkledger_event_store::log::{self, ReadFrom};
use serde::Deserialize;
use sqlx::PgPool;

/// Length limit of a line: every event is shorter.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// Prefix of every line.
const EVENT_BEGINS: &[u8] = b"{\"";

/// Locked file of a shard.
#[derive(Debug)]
pub(super) struct ShardFile {
    pub(super) path: PathBuf,
    /// File, at its end.
    pub(super) file: File,
    shard: Shard,
    last: Option<Line>,
}

/// Members of a line that name the place of its event.
#[derive(Debug, Deserialize)]
struct Line {
    id: EventId,
    source: String,
    sequence: String,
    logepoch: String,
    #[serde(skip)]
    position: Position,
}

impl ShardFile {
    /// Opens or makes the file, and removes an incomplete last line.
    ///
    /// # Errors
    /// Returns an error if the file can't be read or written, another export writes the file, or the
    /// file belongs to another shard or epoch.
    pub(super) fn open(folder: &Path, shard: Shard, epoch: i32) -> anyhow::Result<Self> {
        let path = folder.join(format!("shard-{:02}.ndjson", shard.number()));
        let name = path.display();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path);
        let mut file = file.with_context(|| format!("cannot open {name}"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another export is writing {name}"),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {name}"));
            }
        }
        let length = file.metadata().map(|metadata| metadata.len());
        let length = length.with_context(|| format!("cannot read {name}"))?;
        let (end, last) =
            last_line(&file, length).with_context(|| format!("cannot read {name}"))?;
        let last = last
            .map(|text| parse(&text, shard, epoch))
            .transpose()
            .with_context(|| format!("cannot continue {name}"))?;
        file.set_len(end)
            .and_then(|()| file.seek(SeekFrom::Start(end)))
            .with_context(|| format!("cannot write {name}"))?;
        Ok(Self {
            path,
            file,
            shard,
            last,
        })
    }

    /// Returns the position of the last event; 0 for an empty file.
    pub(super) fn position(&self) -> Position {
        self.last.as_ref().map_or(0, |line| line.position)
    }

    /// Checks that the log has the last event of the file at the same position.
    ///
    /// # Errors
    /// Returns an error if the log has another event there, or the database fails.
    pub(super) async fn check_belongs_to(&self, pool: &PgPool) -> anyhow::Result<()> {
        let Some(line) = &self.last else {
            return Ok(());
        };
        let place = ReadFrom {
            shard: self.shard,
            after: line.position - 1,
        };
        let events = log::read_after(pool, &[place], 1).await;
        let events = events.context("cannot read the log")?;
        // A position beyond the head has no event; the caller checks the head.
        if events.iter().any(|event| event.event_id != line.id) {
            bail!(
                "{} belongs to another log, which has another event at position {}; export into \
                 another folder",
                self.path.display(),
                line.position
            );
        }
        Ok(())
    }
}

/// Returns the end of the last complete line, and the line.
fn last_line(file: &File, length: u64) -> io::Result<(u64, Option<String>)> {
    // Enough for the last complete line and an incomplete line behind it.
    let begin = length.saturating_sub(2 * LINE_BYTES_MAX);
    let mut tail = vec![0; usize::try_from(length - begin).map_err(io::Error::other)?];
    file.read_exact_at(&mut tail, begin)?;
    let Some(end) = tail.iter().rposition(|byte| *byte == b'\n') else {
        let is_begin_of_an_event =
            EVENT_BEGINS.starts_with(&tail) || tail.starts_with(EVENT_BEGINS);
        return if begin == 0 && is_begin_of_an_event {
            Ok((0, None))
        } else {
            Err(io::Error::other("the file is not an export"))
        };
    };
    let line = &tail[..end];
    let feed_before = line.iter().rposition(|byte| *byte == b'\n');
    let line = match feed_before {
        Some(feed) => &line[feed + 1..],
        None if begin == 0 => line,
        None => return Err(io::Error::other("the last line is too long for an event")),
    };
    let line = String::from_utf8(line.to_vec()).map_err(io::Error::other)?;
    Ok((begin + end as u64 + 1, Some(line)))
}

fn parse(text: &str, shard: Shard, epoch: i32) -> anyhow::Result<Line> {
    let mut line: Line =
        serde_json::from_str(text).context("the last line is not an event of an export")?;
    if line.source != format!("/linkledger/shards/{shard}") {
        bail!("the last event belongs to {}", line.source);
    }
    if line.logepoch != epoch.to_string() {
        bail!(
            "the file has events of epoch {}, but the log is in epoch {epoch} since a restore; export \
             into another folder",
            line.logepoch
        );
    }
    let position = line.sequence.parse().ok().filter(|position| *position > 0);
    line.position = position.context("the last event has no position")?;
    Ok(line)
}
