//! Findings of a check of the log: their number, and the first of them in words.

use linkledger_core::shard::{Position, Shard};
use serde::Serialize;

/// Number of findings that are kept and shown.
const SHOWN_MAX: usize = 100;

/// Violation of a rule of the log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(in super::super) struct Finding {
    pub(in super::super) shard: i16,
    /// Position of the finding; `None` if it concerns the whole shard.
    pub(in super::super) position: Option<Position>,
    pub(in super::super) what: String,
}

/// First findings, and the number of all findings.
#[derive(Debug, Default)]
pub(in super::super) struct Findings {
    shown: Vec<Finding>,
    count: u64,
}

impl Findings {
    pub(in super::super) fn add(
        &mut self,
        shard: Shard,
        position: Option<Position>,
        what: impl FnOnce() -> String,
    ) {
        self.count += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(Finding {
                shard: shard.number(),
                position,
                what: what(),
            });
        }
    }

    /// Adds the findings of another shard, in the order of the log.
    pub(in super::super) fn append(&mut self, mut others: Self) {
        self.shown.append(&mut others.shown);
        self.shown.sort();
        self.shown.truncate(SHOWN_MAX);
        self.count += others.count;
    }

    pub(in super::super) fn first(&self) -> &[Finding] {
        &self.shown
    }

    pub(in super::super) fn count(&self) -> u64 {
        self.count
    }
}
