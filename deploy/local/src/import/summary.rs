//! What became of the lines of an import.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path, time::Duration};

use anyhow::Context as _;

use super::lines::Line;
use crate::{
    client::Refusal,
    output::{note, printable},
};

/// How many refused lines are shown; the file of `--refused` has them all.
const SHOWN_MAX: usize = 20;

/// What became of one line.
#[derive(Debug)]
pub(super) enum Outcome {
    Created,
    /// An earlier run had created it.
    Existing,
    Refused(Line, Refusal),
}

/// A line that the service refuses.
#[derive(Debug)]
pub(super) struct RefusedLine {
    pub(super) number: usize,
    code: String,
    detail: String,
    destination: String,
}

/// What became of the lines.
#[derive(Debug, Default)]
pub(super) struct Summary {
    created: u64,
    existing: u64,
    pub(super) refused: Vec<RefusedLine>,
}

impl Summary {
    pub(super) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Created => self.created += 1,
            Outcome::Existing => self.existing += 1,
            Outcome::Refused(line, refusal) => {
                let (code, detail) = refusal.most_telling();
                self.refused.push(RefusedLine {
                    number: line.number,
                    code: printable(code),
                    detail: printable(detail),
                    destination: line.destination,
                });
            }
        }
    }

    /// Shows the first refused lines to a person.
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
                "… and {more} more; --refused FILE writes them all"
            )),
        }
    }

    /// The closing lines: how many of each kind.
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

/// Writes each refused line, with tabs between number, code, reason and the line itself.
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
