//! The outcome of an import: counts, and the refused lines.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, time::Duration};

use anyhow::Context as _;

use linkledger_core::printable::printable;

use super::lines::ImportLine;
use crate::{client::ApiRefusal, output::note};

/// Number of refused lines that are shown; `--refused FILE` writes all refused lines.
const SHOWN_MAX: usize = 20;

/// The outcome of one line.
#[derive(Debug)]
pub(super) enum LineOutcome<'l> {
    Created,
    /// An earlier run created the link.
    Existing,
    Refused(&'l ImportLine, ApiRefusal),
}

/// A line that the service refused.
#[derive(Debug)]
pub(super) struct RefusedLine {
    pub(super) number: usize,
    code: String,
    detail: String,
    destination: String,
}

/// The outcome of all lines.
#[derive(Debug, Default)]
pub(super) struct ImportSummary {
    created: u64,
    existing: u64,
    pub(super) refused: Vec<RefusedLine>,
}

impl ImportSummary {
    pub(super) fn count(&mut self, outcome: LineOutcome<'_>) {
        match outcome {
            LineOutcome::Created => self.created += 1,
            LineOutcome::Existing => self.existing += 1,
            LineOutcome::Refused(line, refusal) => {
                let (code, detail) = refusal.code_and_detail();
                self.refused.push(RefusedLine {
                    number: line.number,
                    code: printable(code).into_owned(),
                    detail: printable(detail).into_owned(),
                    destination: line.destination.clone(),
                });
            }
        }
    }

    /// Prints the first refused lines to standard error.
    pub(super) fn note_refused(&self, has_file: bool) {
        for line in self.refused.iter().take(SHOWN_MAX) {
            note(&format!(
                "line {}: {} ({})",
                line.number, line.detail, line.code
            ));
        }
        match self.refused.len().saturating_sub(SHOWN_MAX) {
            0 => {}
            more if has_file => note(&format!("… and {more} more")),
            more => note(&format!(
                "… and {more} more; --refused FILE writes all of the refused lines to a file"
            )),
        }
    }

    /// Returns the last lines of the output: the number of lines of each outcome and error code.
    pub(super) fn text(&self, took: Duration) -> String {
        let mut codes = BTreeMap::<&str, usize>::new();
        for line in &self.refused {
            *codes.entry(&line.code).or_default() += 1;
        }
        let refused = self.refused.len();
        let mut text = format!(
            "{} lines in {:.1} s: {} created, {} created before, {refused} refused\n",
            self.created + self.existing + refused as u64,
            took.as_secs_f64(),
            self.created,
            self.existing
        );
        for (code, count) in codes {
            writeln!(text, "  {count:>8}  {code}").expect("writing to a string never fails");
        }
        text
    }
}

/// Writes number, error code, reason and text of each refused line, separated by tabs.
pub(super) fn write_refused(path: &Path, lines: &[RefusedLine]) -> anyhow::Result<()> {
    let row = |line: &RefusedLine| {
        let RefusedLine {
            number,
            code,
            detail,
            destination,
        } = line;
        format!("{number}\t{code}\t{detail}\t{destination}\n")
    };
    fs::write(path, lines.iter().map(row).collect::<String>())
        .with_context(|| format!("can't write {}", path.display()))
}
