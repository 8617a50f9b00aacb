//! The files that an import writes: what became of every line, or of the refused ones.

use std::{
    io::{BufWriter, Write as _},
    path::Path,
};

use anyhow::Context as _;
use linkledger_core::{csv_cell::guarded, printable::printable};

use super::{
    formats::SourceLink,
    lines::ImportLine,
    record::SLUG_CODES,
    sending::{ImportOutcome, LineOutcome},
};
use crate::{
    client::batch::BatchMode,
    output::WrongUse,
    output_file::{self, PRIVATE},
};

/// Columns of both files. The format `csv` reads them, so that mended rows can be imported.
const COLUMNS: [&str; 14] = [
    "line",
    "old_address",
    "slug",
    "destination_url",
    "short_url",
    "status",
    "code",
    "reason",
    "changes",
    "title",
    "tags",
    "external_id",
    "expires_at",
    "expired_url",
];

/// Lines that a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrittenLines {
    All,
    Refused,
}

/// Opens a file before the first link is created, so that a folder that cannot be written to is an error
/// then. A file of an earlier run stays as it is until the end. Checks that the file is none of the others.
pub(super) fn prepare(option: &str, path: &Path, others: &[&Path]) -> anyhow::Result<()> {
    if others.iter().any(|other| is_same_file(path, other)) {
        let advice = format!(
            "{option} names the file that is imported, or a file of another option; name another file"
        );
        return Err(WrongUse(advice).into());
    }
    output_file::open(path, PRIVATE)?;
    Ok(())
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Writes as CSV what became of each line: its old and its short address, or why it is refused, and what changed.
pub(super) fn write(
    path: &Path,
    written: WrittenLines,
    lines: &[ImportLine],
    outcome: &ImportOutcome,
    mode: BatchMode,
) -> anyhow::Result<()> {
    let write = || -> anyhow::Result<()> {
        let mut table =
            csv::Writer::from_writer(BufWriter::new(output_file::create(path, PRIVATE)?));
        table.write_record(COLUMNS)?;
        for (line, outcome) in lines.iter().zip(&outcome.lines) {
            let is_refused = matches!(outcome, Some(LineOutcome::Refused { .. }));
            if is_refused || written == WrittenLines::All {
                table.write_record(cells(&line.source, outcome.as_ref(), mode))?;
            }
        }
        table
            .into_inner()
            .map_err(csv::IntoInnerError::into_error)?
            .flush()?;
        Ok(())
    };
    write().with_context(|| format!("can't write {}", path.display()))
}

/// Returns the cells of a row: outcome of the record, and the link that a mended row becomes.
fn cells(source: &SourceLink, outcome: Option<&LineOutcome>, mode: BatchMode) -> Vec<String> {
    let (short_url, status, code, reason) = match outcome {
        Some(LineOutcome::Created { short_url }) => {
            let status = match mode {
                BatchMode::Partial => "created",
                BatchMode::DryRun => "would be created",
            };
            (short_url.as_deref(), status, "", "")
        }
        Some(LineOutcome::Existing { short_url }) => (short_url.as_deref(), "existing", "", ""),
        Some(LineOutcome::Refused { code, detail }) => {
            (None, "refused", code.as_str(), detail.as_str())
        }
        None => (None, "unknown", "", ""),
    };
    let changes: Vec<String> = source.changes.iter().map(ToString::to_string).collect();
    // A slug that was refused leaves the cell to the one that replaces it.
    let slug = source.link.slug.as_deref();
    let slug = slug.filter(|_| !code.starts_with(SLUG_CODES));
    let mut cells = vec![
        source.number.to_string(),
        cell(source.old_address.as_deref()),
        cell(slug),
        cell(Some(&source.link.destination_url)),
        cell(short_url),
        status.to_owned(),
        cell(Some(code)),
        cell(Some(reason)),
        cell(Some(&changes.join("; "))),
    ];
    cells.extend(details(source));
    cells
}

/// Returns title, tags, external id and expiry of a link; of a refused record, as written where the link has none.
fn details(source: &SourceLink) -> [String; 5] {
    let (fitted, written) = (&source.link.details, &source.as_written);
    let or_written = |fitted: &Option<String>, written: &Option<String>| {
        cell(fitted.as_deref().or(written.as_deref()))
    };
    [
        // The title of an own export may have characters that `printable` would replace.
        guarded(fitted.title.as_deref().unwrap_or_default()).into_owned(),
        cell(Some(&fitted.tags.join(","))),
        or_written(&fitted.external_id, &written.external_id),
        or_written(&fitted.expires_at, &written.expires_at),
        or_written(&fitted.expired_url, &written.expired_url),
    ]
}

fn cell(text: Option<&str>) -> String {
    guarded(&printable(text.unwrap_or_default())).into_owned()
}
