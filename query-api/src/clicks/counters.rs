//! Counters of clicks. They begin at 0, so that alerts see the first lost click.

use linkledger_clicks::ClickKind;
use linkledger_service::metrics::{CLICKS_LOST_TOTAL, CLICKS_MERGED_TOTAL, CLICKS_RECORDED_TOTAL};
use metrics::{Counter, counter};

/// Counters of one recorder.
pub(super) struct ClickCounters {
    humans: Counter,
    bots: Counter,
    pub(super) merged: Counter,
    /// No memory was left, not even for counts.
    pub(super) lost_memory: Counter,
    /// The recorder did not empty the buffer of a thread before even its merged clicks had filled it.
    pub(super) lost_stalled: Counter,
    /// The process has stopped before the broker has acknowledged.
    pub(super) lost_shutdown: Counter,
}

impl Default for ClickCounters {
    fn default() -> Self {
        let begun = |counter: Counter| {
            counter.increment(0);
            counter
        };
        let of_kind =
            |kind: ClickKind| begun(counter!(CLICKS_RECORDED_TOTAL, "kind" => kind.name()));
        let lost = |reason| begun(counter!(CLICKS_LOST_TOTAL, "reason" => reason));
        // Counted by the publisher: the broker has refused the record for good.
        drop(lost("refused"));
        Self {
            humans: of_kind(ClickKind::Human),
            bots: of_kind(ClickKind::Bot),
            merged: begun(counter!(CLICKS_MERGED_TOTAL)),
            lost_memory: lost("memory"),
            lost_stalled: lost("stalled"),
            lost_shutdown: lost("shutdown"),
        }
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
}
