//! The recorder: drains the buffers of the threads, classifies, and publishes.
//!
//! The state outlives a panic of its task: the next run continues with the next click.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use linkledger_service::metrics::CLICKS_UNACKNOWLEDGED;
use metrics::gauge;
use tokio::{
    sync::watch,
    task::yield_now,
    time::{MissedTickBehavior, interval, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    Recording,
    buffer::{Buffer, Drain},
    classifier::Classifier,
    counters::ClickCounters,
    outbox::{Added, Outbox, PerPartition},
    publisher::ClickPublisher,
    same_address::SameAddress,
};

/// Interval between two drains.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);
/// Number of clicks that are classified without a yield to requests.
const PIECE_CLICKS: usize = 16;
/// Longest flush after the last request.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(10);
/// Latest end of the flush after the begin of the shutdown: the drain time of the process, less a last
/// heartbeat.
const FLUSH_END_MAX: Duration = Duration::from_secs(18);

/// State of a recorder for its heartbeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordingProgress {
    /// Instant, in milliseconds since 1970, before which all clicks have sequences or are lost.
    pub(super) recorded_until_ms: i64,
    /// Last sequence of each partition.
    pub(super) sequences: PerPartition<u64>,
    /// True while recent clicks have one client address.
    pub(super) has_same_address: bool,
    /// At the end of the recorder, true if the broker has acknowledged every click.
    pub(super) is_flushed: Option<bool>,
}

/// Recorder of all clicks of the process.
pub(super) struct Recorder {
    pub(super) recording: Arc<Recording>,
    pub(super) classifier: Classifier,
    pub(super) outbox: Outbox,
    /// `None` after the end.
    pub(super) publisher: Option<ClickPublisher>,
    pub(super) progress: watch::Sender<RecordingProgress>,
    /// Instant up to which heartbeats claim that all clicks are recorded.
    pub(super) claimed_until_ms: Arc<AtomicI64>,
    pub(super) counters: ClickCounters,
    pub(super) same_address: SameAddress,
    /// Clicks of the buffer that is being drained.
    pub(super) drained: Buffer,
    /// Begin of the shutdown.
    pub(super) stopped_at: Option<Instant>,
}

impl Recorder {
    /// Records until the process is drained, and then flushes.
    ///
    /// # Errors
    /// Never returns an error: failures of the broker are logged and retried.
    pub(super) async fn run(
        &mut self,
        shutdown: CancellationToken,
        drained: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut due = interval(DRAIN_INTERVAL);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !drained.is_cancelled() {
            tokio::select! {
                _ = due.tick() => {}
                () = drained.cancelled() => {}
            }
            if shutdown.is_cancelled() {
                self.stopped_at.get_or_insert_with(Instant::now);
            }
            self.step().await;
        }
        self.flush().await;
        Ok(())
    }

    /// Drains the buffers once, and publishes what may be published.
    async fn step(&mut self) {
        // Clicks that an earlier run left when it panicked.
        self.classify_drained().await;
        let drain = self.begin_drain();
        for number in 0..self.recording.buffers.count() {
            self.recording.buffers.take(number, &mut self.drained);
            self.classify_drained().await;
        }
        self.outbox.queue_merged();
        self.publish().await;
        let until_ms = drain.recorded_until_ms;
        let first_merged_ms = self.outbox.first_merged_ms();
        let recorded_until_ms = first_merged_ms.map_or(until_ms, |it| it.min(until_ms));
        let sequences = self.outbox.last_sequences();
        let has_same_address = self.same_address.is_suspicious();
        self.progress.send_modify(|progress| {
            progress.recorded_until_ms = recorded_until_ms;
            progress.sequences = sequences;
            progress.has_same_address = has_same_address;
        });
    }

    /// Begins a drain. No heartbeat reads the progress and raises the claim meanwhile: a heartbeat after it claims
    /// nothing above the instants of the next clicks.
    fn begin_drain(&self) -> Drain {
        let mut begun = None;
        self.progress.send_modify(|progress| {
            let claimed_until_ms = self.claimed_until_ms.load(Ordering::SeqCst);
            let drain = self.recording.buffers.begin_drain(claimed_until_ms);
            progress.recorded_until_ms = progress.recorded_until_ms.min(drain.began_at_ms);
            begun = Some(drain);
        });
        begun.expect("the change of the progress runs at once")
    }

    async fn publish(&mut self) {
        if let Some(publisher) = &mut self.publisher {
            publisher.publish(&mut self.outbox).await;
        }
        #[expect(clippy::cast_precision_loss, reason = "a metric")]
        let unacknowledged = self.outbox.record_count() as f64;
        gauge!(CLICKS_UNACKNOWLEDGED).set(unacknowledged);
    }

    /// Classifies the clicks of the drained buffer, in pieces between which requests are answered.
    async fn classify_drained(&mut self) {
        let merged = std::mem::take(&mut self.drained.merged_count);
        self.counters.merged.increment(merged);
        let lost = std::mem::take(&mut self.drained.lost_count);
        self.counters.lost_stalled.increment(lost);
        while let Some(click) = self.drained.merged.pop() {
            self.counters.recorded(click.kind, click.count);
            if self.outbox.add(&click) == Added::Lost {
                self.counters.lost_memory.increment(click.count.into());
            }
        }
        while self.classify_piece() {
            yield_now().await;
        }
    }

    /// Classifies some clicks, and returns true if there may be more.
    fn classify_piece(&mut self) -> bool {
        for _ in 0..PIECE_CLICKS {
            let Some((clicked_at_ms, click)) = self.drained.frames.read_next() else {
                return false;
            };
            self.same_address.observe(&click.facts);
            let click = self.classifier.classify(clicked_at_ms, &click);
            self.counters.recorded(click.kind, click.count);
            match self.outbox.add(&click) {
                Added::Queued => {}
                Added::Merged => self.counters.merged.increment(1),
                Added::Lost => self.counters.lost_memory.increment(1),
            }
        }
        true
    }

    /// Publishes everything that waits, until the time of the stop is over.
    async fn flush(&mut self) {
        let now = Instant::now();
        let of_stop = self.stopped_at.unwrap_or(now) + FLUSH_END_MAX;
        let deadline = of_stop.min(now + FLUSH_TIME_MAX);
        let all_acknowledged = async {
            loop {
                self.step().await;
                if self.outbox.is_empty() {
                    return;
                }
                tokio::time::sleep(DRAIN_INTERVAL).await;
            }
        };
        timeout_at(deadline.into(), all_acknowledged).await.ok();
        let clicks = self.unacknowledged_clicks();
        if clicks > 0 {
            self.counters.lost_shutdown.increment(clicks);
            tracing::error!(
                clicks,
                "the stop has lost clicks that the broker did not acknowledge before its deadline"
            );
        }
        self.progress
            .send_modify(|progress| progress.is_flushed = Some(clicks == 0));
        if let Some(publisher) = self.publisher.take() {
            publisher.close().await;
        }
    }

    /// Counts the clicks that the broker has not acknowledged, with those of a step that the deadline of the stop has
    /// cancelled.
    fn unacknowledged_clicks(&mut self) -> u64 {
        let mut clicks = self.outbox.click_count() + self.drained.click_count();
        for number in 0..self.recording.buffers.count() {
            self.recording.buffers.take(number, &mut self.drained);
            clicks += self.drained.click_count();
        }
        self.drained = Buffer::default();
        clicks
    }
}
