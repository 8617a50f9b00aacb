//! Log lines about a broker that takes no clicks: one at the begin of an outage, and one at its end.

use std::time::{Duration, Instant};

use linkledger_service::{kafka_errors::KafkaErrors, metrics::CLICKS_UNACKNOWLEDGED_SECONDS};
use metrics::gauge;

use crate::clicks::outbox::Outbox;

/// Time without an acknowledgement after which waiting clicks are an outage.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// State of the broker, as seen by the publisher.
#[derive(Debug, Default)]
pub(super) struct PublisherOutage {
    is_logged: bool,
    /// True if the broker has acknowledged a record since the outage was logged.
    has_acknowledged: bool,
}

impl PublisherOutage {
    pub(super) fn acknowledged(&mut self) {
        self.has_acknowledged = true;
    }

    /// Records a failure of the producer.
    pub(super) fn failed(&mut self, error: &anyhow::Error) {
        self.log(&format!("{error:#}"));
    }

    /// Looks for clicks that wait without any failure, as while no broker can be reached, and for the end of
    /// an outage.
    pub(super) fn observe(&mut self, outbox: &Outbox, errors: &KafkaErrors, now: Instant) {
        let stalled = outbox.stalled(now);
        gauge!(CLICKS_UNACKNOWLEDGED_SECONDS).set(stalled.as_secs_f64());
        if stalled > SILENCE_MAX {
            let reason = errors.most_specific();
            self.log(reason.as_deref().unwrap_or("the broker does not answer"));
        } else if self.is_logged && self.has_acknowledged {
            self.is_logged = false;
            tracing::info!("clicks are published again");
        }
    }

    fn log(&mut self, reason: &str) {
        self.has_acknowledged = false;
        if !std::mem::replace(&mut self.is_logged, true) {
            tracing::warn!(
                error = reason,
                "cannot publish clicks; they wait in memory, and publishing is retried without limit"
            );
        }
    }
}
