//! Shards that do not advance, because the broker refuses a record of the shard for the record's
//! content or size, or because an event cannot be read. The other shards advance meanwhile.
//!
//! Invariant: only the retries of a stopped shard publish events of the shard.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    panic::resume_unwind,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use linkledger_core::{cloud_event::PublishedEvent, shard::Shard};
use linkledger_event_store::log::PerShard;
use linkledger_service::metrics::RELAY_FAILURES_TOTAL;
use metrics::counter;
use tokio::task::JoinSet;

use super::{
    BACKOFF_MIN,
    cursor::STOPPED,
    outage::LOG_INTERVAL,
    publisher::{EventPublisher, Published},
};

/// Longest backoff of a stopped shard: each retry connects to the broker anew.
const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Stopped shards, each with a producer of its own for the retries.
#[derive(Default)]
pub(super) struct StoppedShards {
    shards: BTreeMap<Shard, StoppedShard>,
    /// By shard: first backoff of the next stop, if no batch of the shard was published since the last
    /// stop. Without such a backoff, a broker that accepts each record and refuses each batch would be
    /// sent batch after batch.
    next_backoffs: PerShard<Option<Duration>>,
    /// Running retries, at most one for each stopped shard. A retry ends after it has closed its
    /// producer.
    retries: JoinSet<EndedRetry>,
    /// True if a closed producer had unanswered requests.
    is_unanswered: bool,
    /// True if the reasons may differ from the stored reasons.
    reasons_changed: bool,
}

struct StoppedShard {
    publisher: Arc<dyn EventPublisher>,
    /// Time of the next retry.
    due_at: Instant,
    /// Start of the running retry.
    running_since: Option<Instant>,
    backoff: Duration,
    logged_at: Option<Instant>,
    stopped_at: Instant,
    /// Reason why the last retry failed; none before the first retry has failed.
    reason: Option<String>,
}

/// Reason why a shard is stopped, and the seconds since the stop.
pub(super) type StopReason = (String, f64);

/// Result of a retry.
pub(super) struct EndedRetry {
    shard: Shard,
    pub(super) events: Vec<PublishedEvent>,
    pub(super) published: Published,
    all_answered: bool,
}

impl StoppedShards {
    /// Stops the shard until a retry by the `publisher` succeeds. The first retry is due at once: it
    /// sends record by record, so it succeeds if only the batch was refused, and otherwise names the
    /// refused record. If no batch of the shard was published since the last stop, the first retry has
    /// a backoff.
    pub(super) fn stop(&mut self, shard: Shard, publisher: Arc<dyn EventPublisher>) {
        let Entry::Vacant(vacant) = self.shards.entry(shard) else {
            return;
        };
        let backoff = self.next_backoffs[shard.index()].take();
        vacant.insert(StoppedShard {
            publisher,
            due_at: Instant::now() + backoff.unwrap_or(Duration::ZERO),
            running_since: None,
            backoff: backoff.map_or(BACKOFF_MIN, longer),
            logged_at: None,
            stopped_at: Instant::now(),
            reason: None,
        });
    }

    /// Returns true if no shard is stopped.
    pub(super) fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Returns true if events of the shard can be published now, by a retry if the shard is stopped.
    pub(super) fn admits(&self, shard: Shard) -> bool {
        self.shards.get(&shard).is_none_or(|stopped| {
            stopped.running_since.is_none() && stopped.due_at <= Instant::now()
        })
    }

    /// Starts a retry for each stopped shard that has some of the events. Returns the events of the
    /// other shards.
    pub(super) fn retry(&mut self, mut events: Vec<PublishedEvent>) -> Vec<PublishedEvent> {
        for (&shard, stopped) in &mut self.shards {
            let (of_shard, others): (Vec<_>, _) = events
                .into_iter()
                .partition(|published| published.event.shard == shard);
            events = others;
            if !of_shard.is_empty() {
                stopped.running_since = Some(Instant::now());
                let publisher = Arc::clone(&stopped.publisher);
                self.retries.spawn(async move {
                    EndedRetry {
                        shard,
                        published: publisher.publish(&of_shard).await,
                        events: of_shard,
                        all_answered: publisher.close().await,
                    }
                });
            }
        }
        events
    }

    /// Returns, once, the reason to replace the producers, if the producer of a retry knows no broker any more.
    pub(super) fn take_lost_brokers(&self) -> Option<&'static str> {
        let mut stopped = self.shards.values();
        stopped.find_map(|stopped| stopped.publisher.take_lost_brokers())
    }

    /// Logs the retries that the broker has not answered for `silence_max`.
    pub(super) fn log_unanswered_retries(&mut self, silence_max: Duration) {
        for (shard, stopped) in &mut self.shards {
            let running_since = stopped.running_since;
            if running_since.is_some_and(|since| since.elapsed() >= silence_max) {
                let reason = stopped.publisher.trouble();
                stopped.log(*shard, &reason);
                self.reasons_changed |= stopped.reason.is_none();
                stopped.reason.get_or_insert(reason);
            }
        }
    }

    /// Returns the results of the retries that have ended since the last call.
    ///
    /// # Panics
    /// Panics if a retry has panicked.
    pub(super) fn ended_retries(&mut self) -> Vec<EndedRetry> {
        let mut ended = Vec::new();
        while let Some(retry) = self.retries.try_join_next() {
            let retry = retry.unwrap_or_else(|error| resume_unwind(error.into_panic()));
            self.is_unanswered |= !retry.all_answered;
            if let Some(stopped) = self.shards.get_mut(&retry.shard) {
                stopped.running_since = None;
            }
            ended.push(retry);
        }
        ended
    }

    /// Lets the shard advance again if the retry has published all its events; otherwise logs the
    /// reason, and retries after a backoff.
    pub(super) fn handle_outcome(&mut self, retry: EndedRetry) {
        let shard = retry.shard;
        let mut refused = retry.published.refused;
        let failure = refused[shard.index()].take().or(retry.published.failure);
        if let Some(failure) = failure {
            self.record_failure(shard, &failure);
        } else if let Some(stopped) = self.shards.remove(&shard) {
            self.next_backoffs[shard.index()] = Some(stopped.backoff);
            self.reasons_changed |= stopped.reason.is_some();
            if stopped.logged_at.is_some() {
                tracing::info!(%shard, "the shard is published again");
            }
        }
    }

    /// Forgets the backoffs of the shards of a batch, if all records of the batch were acknowledged.
    pub(super) fn forget_backoffs(&mut self, batch: &Published) {
        if batch.failure.is_some() || batch.has_refusals() {
            return;
        }
        for (backoff, acknowledged) in self.next_backoffs.iter_mut().zip(batch.acknowledged) {
            backoff.take_if(|_| acknowledged.is_some());
        }
    }

    /// Logs the failure, unless one was logged recently, and delays the next retry of the shard.
    pub(super) fn record_failure(&mut self, shard: Shard, error: &anyhow::Error) {
        let Some(stopped) = self.shards.get_mut(&shard) else {
            return;
        };
        counter!(RELAY_FAILURES_TOTAL).increment(1);
        stopped.due_at = Instant::now() + stopped.backoff;
        stopped.backoff = longer(stopped.backoff);
        let reason = format!("{error:#}");
        stopped.log(shard, &reason);
        stopped.reason = Some(reason);
        self.reasons_changed = true;
    }

    /// Returns the reason of each stopped shard, if the reasons may differ from the stored reasons.
    pub(super) fn changed_reasons(&self) -> Option<PerShard<Option<StopReason>>> {
        let reason_of = |stopped: &StoppedShard| {
            let text = format!("{STOPPED}{}", stopped.reason.as_ref()?);
            Some((text, stopped.stopped_at.elapsed().as_secs_f64()))
        };
        self.reasons_changed.then(|| {
            let mut reasons = PerShard::default();
            for (shard, stopped) in &self.shards {
                reasons[shard.index()] = reason_of(stopped);
            }
            reasons
        })
    }

    /// Records that the stored reasons are the present reasons, or that they are deleted.
    pub(super) fn record_stored(&mut self, are_stored: bool) {
        self.reasons_changed = !are_stored;
    }

    /// Ends all retries, closes their producers, and forgets the stopped shards. If the future is
    /// dropped, the requests count as unanswered, and the next call continues.
    pub(super) async fn close(&mut self) {
        self.is_unanswered |= !self.retries.is_empty();
        self.retries.shutdown().await;
        let was_unanswered = self.is_unanswered;
        self.is_unanswered |= !self.shards.is_empty();
        let closing = self
            .shards
            .values()
            .map(|stopped| stopped.publisher.close());
        let all_answered = join_all(closing).await.into_iter().all(|answered| answered);
        self.is_unanswered = was_unanswered || !all_answered;
        self.shards.clear();
    }

    /// Returns true if all requests of the producers closed since the last call were answered.
    pub(super) fn take_all_answered(&mut self) -> bool {
        !std::mem::take(&mut self.is_unanswered)
    }

    /// Describes the shards that do not advance; `None` if all advance.
    pub(super) fn description(&self) -> Option<String> {
        let shards: Vec<_> = self.shards.keys().map(ToString::to_string).collect();
        (!shards.is_empty()).then(|| format!("stopped shards: {}", shards.join(", ")))
    }
}

impl StoppedShard {
    /// Logs why the shard is stopped, unless a reason was logged recently.
    fn log(&mut self, shard: Shard, error: &str) {
        let is_recent = |at: Instant| at.elapsed() < LOG_INTERVAL;
        if self.logged_at.is_some_and(is_recent) {
            return;
        }
        self.logged_at = Some(Instant::now());
        tracing::error!(
            %shard,
            error,
            "the shard is stopped until its next event can be published; the other shards advance, \
             and the relay retries after at most 5 s"
        );
    }
}

/// Returns the backoff after `backoff`.
fn longer(backoff: Duration) -> Duration {
    (backoff * 2).min(RETRY_BACKOFF_MAX)
}

#[cfg(test)]
mod tests;
