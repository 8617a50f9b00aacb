//! The file of one shard: what it has, and whether it is of this log.
//!
//! A run that was ended, in whatever way, leaves whole lines and perhaps a torn one at the end.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Seek as _, SeekFrom, Write},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use linkledger_core::{
    event_store::log::{self, ReadFrom},
    id::EventId,
    shard::{Position, Shard},
};
use serde::Deserialize;
use sqlx::PgPool;

/// What is read at once to find the last line.
const BLOCK_BYTES: u64 = 64 * 1024;
/// No event is as long.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// What every line begins with.
const EVENT_BEGINS: &[u8] = b"{\"";

/// The file of a shard; nobody else writes it meanwhile.
#[derive(Debug)]
pub(super) struct ShardFile {
    path: PathBuf,
    file: File,
    shard: Shard,
    last: Option<Line>,
}

/// What a line says about its event's place.
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
    /// Opens or makes the file, and drops a last line that is not whole.
    ///
    /// # Errors
    /// When it can't be read or written, somebody else is writing it, or it is not a file of this
    /// shard and epoch.
    pub(super) fn open(folder: &Path, shard: Shard, epoch: i32) -> anyhow::Result<Self> {
        let path = folder.join(format!("shard-{:02}.ndjson", shard.number()));
        let name = path.display();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path);
        let mut file = file.with_context(|| format!("can't open {name}"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another export is writing {name}"),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("can't lock {name}"));
            }
        }
        let length = file.metadata().map(|metadata| metadata.len());
        let length = length.with_context(|| format!("can't read {name}"))?;
        let (end, last) = last_line(&file, length).with_context(|| format!("can't read {name}"))?;
        let last = last
            .map(|text| parse(&text, shard, epoch))
            .transpose()
            .with_context(|| format!("can't go on with {name}"))?;
        file.set_len(end)
            .and_then(|()| file.seek(SeekFrom::Start(end)))
            .with_context(|| format!("can't write {name}"))?;
        Ok(Self {
            path,
            file,
            shard,
            last,
        })
    }

    /// The last position that it has; 0 if it has none.
    pub(super) fn position(&self) -> Position {
        self.last.as_ref().map_or(0, |line| line.position)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Looks whether its last event is the one that the log has there.
    ///
    /// # Errors
    /// When it is not, or the database does not answer.
    pub(super) async fn check_belongs_to(&self, pool: &PgPool) -> anyhow::Result<()> {
        let Some(line) = &self.last else {
            return Ok(());
        };
        let place = ReadFrom {
            shard: self.shard,
            after: line.position - 1,
        };
        let events = log::read_after(pool, &[place], 1).await;
        let events = events.context("can't read the log")?;
        // At the head nothing may be there; that is for the caller to say.
        if events.iter().any(|event| event.event_id != line.id) {
            bail!(
                "{} is of another log: its event at position {} is not the one that is there; \
                 export into another folder",
                self.path.display(),
                line.position
            );
        }
        Ok(())
    }

    /// Writes to its end.
    pub(super) fn append(&self) -> impl Write {
        &self.file
    }

    /// What was written survives a crash of the machine.
    ///
    /// # Errors
    /// When it may not.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Where the last whole line ends, and its text.
fn last_line(file: &File, length: u64) -> io::Result<(u64, Option<String>)> {
    let Some(end) = end_of_line_before(file, length)? else {
        return if begins_with_an_event(file, length)? {
            Ok((0, None))
        } else {
            Err(io::Error::other("it is not a file of an export"))
        };
    };
    let begin = end_of_line_before(file, end - 1)?.unwrap_or(0);
    if end - begin > LINE_BYTES_MAX {
        return Err(io::Error::other("its last line is too long for an event"));
    }
    let mut line = vec![0; usize::try_from(end - 1 - begin).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut line, begin)?;
    let line = String::from_utf8(line).map_err(io::Error::other)?;
    Ok((end, Some(line)))
}

/// Whether a file without a whole line may be the beginning of an export.
fn begins_with_an_event(file: &File, length: u64) -> io::Result<bool> {
    let mut begin = [0; EVENT_BEGINS.len()];
    let begin = &mut begin[..EVENT_BEGINS
        .len()
        .min(usize::try_from(length).unwrap_or(usize::MAX))];
    file.read_exact_at(begin, 0)?;
    Ok(EVENT_BEGINS.starts_with(begin))
}

/// Right after the last line feed before `end`.
fn end_of_line_before(file: &File, mut end: u64) -> io::Result<Option<u64>> {
    let mut block = Vec::new();
    while end > 0 {
        let begin = end.saturating_sub(BLOCK_BYTES);
        block.resize(usize::try_from(end - begin).unwrap_or(usize::MAX), 0);
        file.read_exact_at(&mut block, begin)?;
        if let Some(index) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some(begin + index as u64 + 1));
        }
        end = begin;
    }
    Ok(None)
}

fn parse(text: &str, shard: Shard, epoch: i32) -> anyhow::Result<Line> {
    let mut line: Line =
        serde_json::from_str(text).context("its last line is not an event of an export")?;
    if line.source != format!("/linkledger/shards/{shard}") {
        bail!("its last event is of {}", line.source);
    }
    if line.logepoch != epoch.to_string() {
        bail!(
            "it has epoch {} of the log, which is in epoch {epoch} since a restore; export into \
             another folder",
            line.logepoch
        );
    }
    let position = line.sequence.parse().ok().filter(|it| *it > 0);
    line.position = position.context("its last event has no position")?;
    Ok(line)
}
