//! Log lines and gauges of refusals and pauses. A refusal is logged once for each reason, a pause
//! once.

use linkledger_core::metrics::{RELAY_PAUSED, RELAY_REFUSED};
use metrics::gauge;

use super::{pause::Pause, refusal::RelayRefusal};

/// Last logged refusal and last logged pause.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    refused: Option<&'static str>,
    paused: Option<Pause>,
}

impl Announcements {
    /// Logs the refusal, unless its reason was the last one that was logged since a recovery. Returns true if
    /// the refusal was logged.
    pub(super) fn announce_refusal(&mut self, refusal: &RelayRefusal) -> bool {
        let reason = refusal.reason();
        if self.refused == Some(reason) {
            return false;
        }
        self.set_refused(Some(reason));
        tracing::error!(error = %refusal, "the relay publishes nothing until an operator fixes the cause");
        true
    }

    /// Logs the end of the last refusal, if there is one.
    pub(super) fn announce_recovery(&mut self) {
        if self.refused.is_some() {
            self.set_refused(None);
            tracing::info!("the relay publishes again: the cause of the refusal is fixed");
        }
    }

    /// Forgets the last refusal: without the lease this process does not know whether its cause is fixed.
    pub(super) fn forget_refusal(&mut self) {
        self.set_refused(None);
    }

    /// Logs the start or the end of a pause, if the stored `pause` has changed since the last call.
    pub(super) fn announce_pause(&mut self, pause: Option<Pause>) {
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
