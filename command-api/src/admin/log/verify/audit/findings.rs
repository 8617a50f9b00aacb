//! What is wrong with the log, in words; the first of it, and how much there is.

use linkledger_core::shard::{Position, Shard};
use serde::Serialize;

/// Findings that are kept and shown; a log that is damaged in more places is as bad.
const SHOWN_MAX: usize = 100;

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(in super::super) struct Finding {
    pub(in super::super) shard: i16,
    /// `None`: of the shard as a whole.
    pub(in super::super) position: Option<Position>,
    pub(in super::super) what: String,
}

/// The first findings, and the number of all.
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

    /// With those of another shard, in the order of the log.
    pub(in super::super) fn append(&mut self, mut others: Self) {
        self.shown.append(&mut others.shown);
        self.shown.sort();
        self.shown.truncate(SHOWN_MAX);
        self.count += others.count;
    }

    pub(in super::super) fn shown(&self) -> &[Finding] {
        &self.shown
    }

    pub(in super::super) fn count(&self) -> u64 {
        self.count
    }
}
