//! Seals segments of the log behind the writers: slowly, one at a time, for ever.
//!
//! Every instance may do it: the same segments come of it, and the first to store one has sealed
//! it. What can't be sealed is told and tried again; requests never wait for it.

use std::{collections::HashSet, error::Error as _, sync::Arc, time::Duration};

use linkledger_core::{
    clock::Clock,
    event_store::{
        segments::{self, SealError, SealedShard},
        time_limit::within,
    },
    metrics::{LOG_SEALED_POSITION, LOG_SEALING_FAILURES_TOTAL},
    segment::Segment,
    shard::Shard,
};
use metrics::{counter, gauge};
use sqlx::PgPool;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Events of one shard that are sealed together. Segments name their positions, so that another
/// number would only concern those to come.
pub const EVENTS_PER_SEGMENT: i64 = 10_000;

/// Longest time for a segment, which takes several statements.
const SEALING_TIME_MAX: Duration = Duration::from_mins(1);
/// Between two rounds when there was nothing to seal.
const INTERVAL: Duration = Duration::from_secs(10);
/// After a segment it rests this many times as long as the segment took: to seal a long log takes
/// at most a fifth of one session's time.
const REST_FACTOR: u32 = 4;
/// It never rests for longer between two segments.
const REST_MAX: Duration = Duration::from_secs(5);

/// Why a segment could not be sealed, as the metric names it.
const UNSOUND: &str = "unsound";
const UNREACHABLE: &str = "unreachable";

/// What seals.
pub struct Sealer {
    pool: PgPool,
    clock: Arc<dyn Clock>,
    events_per_segment: i64,
    /// What was told since a round went without failure; not told again.
    told: HashSet<String>,
}

impl Sealer {
    /// One that has sealed nothing yet.
    pub fn new(pool: PgPool, clock: Arc<dyn Clock>) -> Self {
        Self {
            pool,
            clock,
            events_per_segment: EVENTS_PER_SEGMENT,
            told: HashSet::new(),
        }
    }

    /// With that many events in a segment.
    #[must_use]
    pub fn with_events_per_segment(self, events_per_segment: i64) -> Self {
        Self {
            events_per_segment,
            ..self
        }
    }

    /// Seals until the shutdown.
    ///
    /// # Errors
    /// Never: what fails is told, and tried again.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        for reason in [UNSOUND, UNREACHABLE] {
            counter!(LOG_SEALING_FAILURES_TOTAL, "reason" => reason).increment(0);
        }
        let rounds = async {
            loop {
                if self.round().await == 0 {
                    tokio::time::sleep(INTERVAL).await;
                }
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            () = rounds => Ok(()),
        }
    }

    /// Seals one segment of each shard that has enough events for one; returns how many.
    pub async fn round(&mut self) -> usize {
        let shards = match within(SEALING_TIME_MAX, segments::sealed_shards(&self.pool)).await {
            Ok(shards) => shards,
            Err(error) => {
                self.tell(&error.into());
                return 0;
            }
        };
        let (mut sealed, mut failed) = (0, 0);
        for (shard, state) in Shard::all().zip(&shards) {
            let begun = Instant::now();
            match within(SEALING_TIME_MAX, self.seal_next(shard, state)).await {
                Ok(None) => {}
                Ok(Some(segment)) => {
                    sealed += 1;
                    show(shard, Some(&segment));
                    tokio::time::sleep(REST_MAX.min(begun.elapsed() * REST_FACTOR)).await;
                }
                Err(error) => {
                    failed += 1;
                    self.tell(&error);
                }
            }
        }
        if failed == 0 && !self.told.is_empty() {
            self.told.clear();
            tracing::info!("segments of the log can be sealed again");
        }
        sealed
    }

    async fn seal_next(
        &self,
        shard: Shard,
        state: &SealedShard,
    ) -> Result<Option<Segment>, SealError> {
        show(shard, state.last.as_ref());
        let place = Segment::next(
            state.last.as_ref(),
            shard,
            state.epoch,
            self.events_per_segment,
        );
        if state.head + 1 < place.first_position {
            let what = format!("the log ends at position {} already", state.head);
            return Err(SealError::Unsound { place, what });
        }
        if state.head < place.last_position {
            return Ok(None);
        }
        let now = self.clock.now();
        let segment = segments::seal(&self.pool, place, state.last.as_ref(), now).await?;
        Ok(Some(segment))
    }

    fn tell(&mut self, error: &SealError) {
        let reason = match error {
            SealError::Unsound { .. } => UNSOUND,
            SealError::Database(_) => UNREACHABLE,
            SealError::Epoch { .. } => {
                tracing::info!(%error, "the next segment belongs to the log as it was restored");
                return;
            }
        };
        counter!(LOG_SEALING_FAILURES_TOTAL, "reason" => reason).increment(1);
        if !self.told.insert(error.to_string()) {
            return;
        }
        match error {
            SealError::Unsound { .. } => tracing::error!(%error, "the log is not sound"),
            SealError::Database(_) | SealError::Epoch { .. } => {
                tracing::warn!(%error, source = error.source(), "it is tried again");
            }
        }
    }
}

fn show(shard: Shard, last: Option<&Segment>) {
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    let position = last.map_or(0.0, |segment| segment.place.last_position as f64);
    gauge!(LOG_SEALED_POSITION, "shard" => shard.to_string()).set(position);
}
