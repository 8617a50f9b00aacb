//! The files that an import writes: the refused lines, and the map of lines to short addresses.

use std::{
    fmt::Write as _,
    io::{BufWriter, Write as _},
    path::Path,
};

use anyhow::Context as _;
use linkledger_core::{csv_cell::guarded, printable::printable};

use super::{
    lines::ImportLine,
    sending::{ImportOutcome, LineOutcome},
};
use crate::{
    output::WrongUse,
    output_file::{self, PRIVATE},
};

/// Columns of the map.
const MAP_COLUMNS: [&str; 3] = ["line", "short_url", "status"];

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

/// Writes number, error code, reason and address of each refused line, separated by tabs.
pub(super) fn write_refused(
    path: &Path,
    lines: &[ImportLine],
    outcome: &ImportOutcome,
) -> anyhow::Result<()> {
    let mut text = String::new();
    for (line, outcome) in lines.iter().zip(&outcome.lines) {
        if let Some(LineOutcome::Refused { code, detail }) = outcome {
            let (code, detail) = (printable(code), printable(detail));
            let (number, address) = (line.number, printable(&line.link.destination_url));
            let address = guarded(&address);
            writeln!(text, "{number}\t{code}\t{detail}\t{address}")
                .expect("writing to a string never fails");
        }
    }
    output_file::write(path, text.as_bytes(), PRIVATE)
}

/// Writes line, short address and status of each line as CSV.
pub(super) fn write_map(
    path: &Path,
    lines: &[ImportLine],
    outcome: &ImportOutcome,
) -> anyhow::Result<()> {
    let write = || -> anyhow::Result<()> {
        let mut table =
            csv::Writer::from_writer(BufWriter::new(output_file::create(path, PRIVATE)?));
        table.write_record(MAP_COLUMNS)?;
        for (line, outcome) in lines.iter().zip(&outcome.lines) {
            let (short_url, status) = match outcome {
                Some(LineOutcome::Created { short_url }) => (short_url.as_deref(), "created"),
                Some(LineOutcome::Existing { short_url }) => (short_url.as_deref(), "existing"),
                Some(LineOutcome::Refused { code, .. }) => (None, code.as_str()),
                None => (None, "unknown"),
            };
            let number = line.number.to_string();
            table.write_record([&number, short_url.unwrap_or_default(), status])?;
        }
        table
            .into_inner()
            .map_err(csv::IntoInnerError::into_error)?
            .flush()?;
        Ok(())
    };
    write().with_context(|| format!("can't write {}", path.display()))
}
