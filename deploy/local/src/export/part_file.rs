//! The incomplete file of an export. The complete file gets the name that the user gave.
//!
//! The file itself says how far the export got: links are in the order of their creation, so an
//! export continues with the links that were created at the last link's creation or later. A line
//! that was cut off is removed.

use std::{
    collections::HashSet,
    fs::File,
    io::{BufRead as _, BufReader, BufWriter, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use uuid::Uuid;

use super::{ExportFormat, row::LinePlace};
use crate::output_file::{self, PRIVATE};

/// Namespace of the names of incomplete files.
const NAMESPACE: Uuid = Uuid::from_u128(0x2f0d_94a7_51c8_4e6b_8d13_7ab0_c4e9_6f25);
/// Number of hexadecimal digits in the name of an incomplete file.
const NAME_DIGITS: usize = 12;

/// Progress of an export.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ExportProgress {
    pub(super) links: u64,
    /// Creation of the last link.
    pub(super) created_at: Option<String>,
    /// Ids of the links that were created at that time.
    pub(super) newest: HashSet<String>,
}

/// An incomplete file.
#[derive(Debug)]
pub(super) struct PartFile {
    path: PathBuf,
    writer: BufWriter<File>,
}

impl ExportProgress {
    /// Notes a link. Returns false if the export has the link already.
    pub(super) fn add(&mut self, place: LinePlace) -> bool {
        if self.created_at.as_ref() != Some(&place.created_at) {
            self.newest.clear();
            self.created_at = Some(place.created_at);
        }
        let is_new = self.newest.insert(place.id);
        self.links += u64::from(is_new);
        is_new
    }
}

impl PartFile {
    /// Opens the incomplete file beside `path`. The name depends on `source`: the API, the account and
    /// the options of the export, because a file of another source cannot be continued.
    pub(super) fn open(
        path: &Path,
        source: &str,
        format: ExportFormat,
        header: &str,
    ) -> anyhow::Result<(Self, ExportProgress)> {
        output_file::check(path)?;
        let digits = Uuid::new_v5(&NAMESPACE, source.as_bytes())
            .simple()
            .to_string();
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}.part", &digits[..NAME_DIGITS]));
        let path = PathBuf::from(name);
        let shown = path.display().to_string();
        let mut file = output_file::open(&path, PRIVATE)?;
        if file.try_lock().is_err() {
            bail!("another export writes {shown}; wait for its end");
        }
        let (progress, length) =
            read(&file, format, header).with_context(|| format!("can't read {shown}"))?;
        file.set_len(length)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .with_context(|| format!("can't write {shown}"))?;
        let mut part = Self {
            path,
            writer: BufWriter::new(file),
        };
        if length == 0 {
            part.write(header)?;
        }
        Ok((part, progress))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes whole lines.
    pub(super) fn write(&mut self, lines: &str) -> anyhow::Result<()> {
        let written = self.writer.write_all(lines.as_bytes());
        written
            .and_then(|()| self.writer.flush())
            .with_context(|| format!("can't write {}", self.path.display()))
    }

    /// Gives the complete file its name.
    pub(super) fn complete(self, name: &Path) -> anyhow::Result<()> {
        let synced = self.writer.get_ref().sync_all();
        synced.with_context(|| format!("can't write {}", self.path.display()))?;
        output_file::rename(&self.path, name)
    }
}

/// Reads how far an export got, and the length of its whole lines in bytes.
fn read(file: &File, format: ExportFormat, header: &str) -> std::io::Result<(ExportProgress, u64)> {
    let mut reader = BufReader::new(file);
    let mut progress = ExportProgress::default();
    let (mut length, mut line) = (0, Vec::new());
    loop {
        line.clear();
        let count = reader.read_until(b'\n', &mut line)?;
        let whole = line
            .strip_suffix(b"\n")
            .and_then(|line| std::str::from_utf8(line).ok());
        let is_header = length == 0 && !header.is_empty() && line == header.as_bytes();
        match whole.and_then(|line| format.place(line)) {
            _ if is_header => {}
            Some(place) if length > 0 || header.is_empty() => drop(progress.add(place)),
            _ => return Ok((progress, length)),
        }
        length += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, symlink},
    };

    use super::*;

    fn link(number: u32, millisecond: u32) -> String {
        format!(
            "{{\"id\":\"lnk_{number}\",\"created_at\":\"2026-11-20T09:51:00.{millisecond:03}Z\"}}\n"
        )
    }

    fn open(path: &Path, source: &str) -> (PartFile, ExportProgress) {
        PartFile::open(path, source, ExportFormat::Ndjson, "").unwrap()
    }

    #[test]
    fn cut_off_line_is_removed_and_the_rest_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("links.ndjson");
        let (mut part, progress) = open(&path, "a");
        assert_eq!(progress, ExportProgress::default());
        let lines = [link(1, 1), link(2, 2), link(3, 2)].concat();
        part.write(&format!("{lines}{}", &link(4, 3)[..20]))
            .unwrap();
        drop(part);

        let (mut part, mut progress) = open(&path, "a");
        assert_eq!(progress.links, 3);
        assert_eq!(
            progress.created_at.as_deref(),
            Some("2026-11-20T09:51:00.002Z")
        );
        let place = |line: &str| ExportFormat::Ndjson.place(line.trim_end()).unwrap();
        assert!(!progress.add(place(&link(3, 2))));
        assert!(progress.add(place(&link(4, 3))));
        part.write(&link(4, 3)).unwrap();
        part.complete(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), lines + &link(4, 3));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn file_of_another_source_is_not_continued() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("links.ndjson");
        let (mut part, _) = open(&path, "a");
        part.write(&link(1, 1)).unwrap();
        assert_eq!(open(&path, "b").1, ExportProgress::default());
        let error = PartFile::open(&path, "a", ExportFormat::Ndjson, "").unwrap_err();
        assert!(
            error.to_string().contains("another export writes"),
            "{error}"
        );
    }

    #[test]
    fn export_never_writes_through_a_prepared_link() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("links.ndjson");
        let (mut part, _) = open(&path, "a");
        let part_path = part.path().to_owned();
        part.write(&link(1, 1)).unwrap();
        assert_eq!(fs::metadata(&part_path).unwrap().mode() & 0o777, PRIVATE);
        let victim = directory.path().join("victim");
        fs::rename(&part_path, &victim).unwrap();
        symlink(&victim, &part_path).unwrap();
        drop(part);
        let refused = PartFile::open(&path, "a", ExportFormat::Ndjson, "").unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), link(1, 1));
        fs::remove_file(&part_path).unwrap();

        // A name that was prepared while the export ran.
        let (part, _) = open(&path, "a");
        symlink(&victim, &path).unwrap();
        let refused = part.complete(&path).unwrap_err();
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
    }

    #[test]
    fn file_without_its_header_begins_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("links.csv");
        let header = ExportFormat::Csv.header(false);
        let open = || PartFile::open(&path, "a", ExportFormat::Csv, &header).unwrap();
        let (part, progress) = open();
        assert_eq!(progress.links, 0);
        let part_path = part.path().to_owned();
        drop(part);
        assert_eq!(fs::read_to_string(&part_path).unwrap(), header);
        fs::write(&part_path, &header[..10]).unwrap();
        drop(open());
        assert_eq!(fs::read_to_string(&part_path).unwrap(), header);
    }
}
