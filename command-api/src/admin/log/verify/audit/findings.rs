//! Findings of a check of the log: their number, and the first of them in words.

use linkledger_core::shard::{Position, Shard};
use serde::Serialize;

/// Number of findings that are kept and shown.
const SHOWN_MAX: usize = 100;

/// Violation of a rule of the log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(in super::super) struct LogFinding {
    pub(in super::super) shard: i16,
    /// Position of the finding; `None` if it concerns the whole shard.
    pub(in super::super) position: Option<Position>,
    pub(in super::super) what: String,
}

/// First findings of a shard, and the number of all its findings.
#[derive(Debug)]
pub(in super::super) struct Findings {
    shard: i16,
    shown: Vec<LogFinding>,
    count: u64,
}

impl Findings {
    pub(super) fn of(shard: Shard) -> Self {
        Self {
            shard: shard.number(),
            shown: Vec::new(),
            count: 0,
        }
    }

    /// Adds a finding about the event at the position, or about the whole shard.
    pub(super) fn add(&mut self, position: Option<Position>, what: String) {
        self.count += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(LogFinding {
                shard: self.shard,
                position,
                what,
            });
        }
    }

    /// Returns the number of findings of all shards, and the first findings in the order of the log.
    pub(in super::super) fn total(shards: Vec<Self>) -> (u64, Vec<LogFinding>) {
        let count = shards.iter().map(|findings| findings.count).sum();
        let mut shown: Vec<LogFinding> = shards
            .into_iter()
            .flat_map(|findings| findings.shown)
            .collect();
        shown.sort();
        shown.truncate(SHOWN_MAX);
        (count, shown)
    }
}
