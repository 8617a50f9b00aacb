//! Counters of clicks. They begin at 0, so that alerts see the first lost click.

use linkledger_core::{
    click::ClickKind,
    metrics::{CLICKS_FOLDED_TOTAL, CLICKS_LOST_TOTAL, CLICKS_RECORDED_TOTAL},
};
use metrics::{Counter, counter};

/// Reason why clicks are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LossReason {
    /// No memory was left, not even for counts.
    Memory,
    /// The recorder did not empty the buffer of a thread before even its folded clicks had filled it.
    Stalled,
    /// The broker has refused the record for good.
    Refused,
    /// The process has stopped before the broker has acknowledged.
    Shutdown,
}

/// Counters of one recorder.
pub(super) struct ClickCounters {
    humans: Counter,
    bots: Counter,
    folded: Counter,
    lost: [Counter; 4],
}

impl Default for ClickCounters {
    fn default() -> Self {
        let of_kind = |kind: ClickKind| counter!(CLICKS_RECORDED_TOTAL, "kind" => kind.name());
        let of_reason = |reason| counter!(CLICKS_LOST_TOTAL, "reason" => reason);
        let counters = Self {
            humans: of_kind(ClickKind::Human),
            bots: of_kind(ClickKind::Bot),
            folded: counter!(CLICKS_FOLDED_TOTAL),
            lost: ["memory", "stalled", "refused", "shutdown"].map(of_reason),
        };
        let all = [&counters.humans, &counters.bots, &counters.folded];
        for counter in all.into_iter().chain(&counters.lost) {
            counter.increment(0);
        }
        counters
    }
}

impl ClickCounters {
    pub(super) fn recorded(&self, kind: ClickKind, count: u32) {
        let counter = match kind {
            ClickKind::Human => &self.humans,
            ClickKind::Bot => &self.bots,
        };
        counter.increment(count.into());
    }

    pub(super) fn folded(&self, count: u64) {
        self.folded.increment(count);
    }

    pub(super) fn lost(&self, reason: LossReason, count: u64) {
        self.lost[reason as usize].increment(count);
    }
}
