//! Reasons for which the relay publishes nothing although database and broker answer, with their log
//! lines and gauges. The relay checks again until the cause is gone.

use linkledger_core::shard::Shard;
use linkledger_service::metrics::{RELAY_PAUSED, RELAY_REFUSED};
use metrics::gauge;

use super::pause::Pause;

/// Reason why the relay publishes nothing until an operator acts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct RelayRefusal {
    /// Value of the metric's label `reason`.
    pub reason: &'static str,
    text: String,
}

impl RelayRefusal {
    /// Returns a refusal whose `text` names the cause and the remedy.
    pub(super) fn new(reason: &'static str, text: String) -> Self {
        Self { reason, text }
    }

    /// Returns the refusal for a record that got a lower offset than an earlier record.
    pub(super) fn began_again(shard: Shard) -> Self {
        let text = format!(
            "the topic began again while it was published to (partition {shard}): it was created anew; \
             publish the log again into an empty topic: `command-api relay republish --from 0`"
        );
        Self::new("began_again", text)
    }

    /// Returns the refusal for a log that lacks published events.
    pub(super) fn events_lost(shard: Shard, epoch: i32) -> Self {
        let text = format!(
            "the log of shard {shard} has lost events of epoch {epoch} that were published: a restore, \
             or a failover to a standby that lagged; later events get the sequences of the \
             lost events, and consumers would drop them as duplicates. Give the log another epoch: `command-api log epoch raise --reason …` \
             (docs/operations.md, \"The log was restored\")"
        );
        Self::new("events_lost", text)
    }
}

/// Last logged refusal and last logged pause: a refusal is logged once for each reason, a pause once.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    refused: Option<&'static str>,
    paused: Option<Pause>,
}

impl RefusalLog {
    /// Logs the refusal, unless its reason was the last one that was logged since a recovery. Returns true if
    /// the refusal was logged.
    pub(super) fn log_refusal(&mut self, refusal: &RelayRefusal) -> bool {
        if self.refused == Some(refusal.reason) {
            return false;
        }
        self.set_refused(Some(refusal.reason));
        tracing::error!(error = %refusal, "the relay publishes nothing until an operator fixes the cause");
        true
    }

    /// Forgets the last refusal. Logs its end, unless this process has no lease: then another process knows
    /// whether the cause is fixed.
    pub(super) fn end_refusal(&mut self, has_lease: bool) {
        if self.refused.is_some() && has_lease {
            tracing::info!("the relay publishes again: the cause of the refusal is fixed");
        }
        self.set_refused(None);
    }

    /// Logs the start or the end of a pause, if the stored `pause` has changed since the last call.
    pub(super) fn log_pause(&mut self, pause: Option<Pause>) {
        gauge!(RELAY_PAUSED).set(if pause.is_some() { 1.0 } else { 0.0 });
        if pause == self.paused {
            return;
        }
        if let Some(Pause { by, reason, .. }) = &pause {
            tracing::warn!(
                by,
                reason,
                "the relay is paused; events wait in the log until `command-api relay resume`"
            );
        } else {
            tracing::info!("the relay is resumed");
        }
        self.paused = pause;
    }

    fn set_refused(&mut self, reason: Option<&'static str>) {
        for (reason, value) in [(self.refused, 0.0), (reason, 1.0)] {
            if let Some(reason) = reason {
                gauge!(RELAY_REFUSED, "reason" => reason).set(value);
            }
        }
        self.refused = reason;
    }
}
