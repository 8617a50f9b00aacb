//! What is told of publishing that somebody has to do something about: a refusal, once for each
//! reason, and a pause, once for each pause.

use linkledger_core::metrics::{RELAY_PAUSED, RELAY_REFUSED};
use metrics::gauge;

use super::{pause::Pause, refusal::Refusal};

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct Standing {
    refused: Option<&'static str>,
    paused: Option<Pause>,
}

impl Standing {
    /// Nothing is published for that reason. Tells whether it is another one than before.
    pub(super) fn refused(&mut self, refusal: &Refusal) -> bool {
        let reason = refusal.reason();
        if self.refused == Some(reason) {
            return false;
        }
        self.show(Some(reason));
        tracing::error!(error = %refusal, "the relay publishes nothing until this is mended");
        true
    }

    /// Nothing is refused.
    pub(super) fn accepted(&mut self) {
        if self.refused.is_some() {
            self.show(None);
            tracing::info!("the relay publishes again: what it refused is mended");
        }
    }

    /// Whether publishing is paused, as the table says.
    pub(super) fn paused(&mut self, pause: Option<Pause>) {
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

    fn show(&mut self, reason: Option<&'static str>) {
        for (reason, value) in [(self.refused, 0.0), (reason, 1.0)] {
            if let Some(reason) = reason {
                gauge!(RELAY_REFUSED, "reason" => reason).set(value);
            }
        }
        self.refused = reason;
    }
}
