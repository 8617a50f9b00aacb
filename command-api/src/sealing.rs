//! Seals segments of the log in the background, one segment at a time. A seal is a stored hash of a
//! run of events, so that a later change of an event is noticed (`docs/sealed-segments.md`).
//!
//! Every instance of command-api runs a [`Sealer`]; an advisory lock of Postgres lets one
//! instance read and hash the log while the other instances skip the round. The lock saves work and is not needed
//! for correctness: two instances that seal the same segment store the same hash.
//! Requests never wait for sealing. A failure is logged, and the next round retries.

use std::{collections::HashSet, error::Error as _, sync::LazyLock, time::Duration};

use linkledger_core::{segment::Segment, shard::Shard};
use linkledger_event_store::{
    errors::is_of_storage,
    segments::{self, SealError, SealState},
    time_limit::within,
};
use linkledger_service::metrics::{LOG_SEALED_POSITION, LOG_SEALING_FAILURES_TOTAL};
use metrics::{counter, gauge};
use sqlx::{Either, PgConnection, PgPool, postgres::PgAdvisoryLock};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Number of events of one shard in a segment. A stored segment names its positions, so another
/// number would apply to later segments only.
pub const EVENTS_PER_SEGMENT: i64 = 10_000;

/// Advisory lock of the instance that seals, for one round.
///
/// The session that holds the lock also does the round's reads and writes. If Postgres ends that
/// session, the lock is released, the round fails, and another instance seals. Postgres notices a
/// vanished client by the TCP keepalives of [`linkledger_event_store::pool`]
/// within some seconds, and ends the session of a frozen process after
/// [half a minute](SET_IDLE_TIMEOUT). The lock outlives transactions, so no transaction stays open and vacuum is
/// not held back. A pooler that shares sessions between transactions would break the lock, and
/// command-api refuses to start behind such a pooler.
static SEALER_LOCK: LazyLock<PgAdvisoryLock> =
    LazyLock::new(|| PgAdvisoryLock::new("linkledger sealer"));

/// Sets the idle time after which Postgres ends the session of a frozen process. Longer than every
/// pause between two statements of a round, and than the pause between two rounds.
const SET_IDLE_TIMEOUT: &str = "SET idle_session_timeout = '30s'";
/// Timeout for one segment, which takes several statements.
const SEALING_TIMEOUT: Duration = Duration::from_mins(1);
/// Pause after a round that sealed nothing.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// Length of the pause after a segment, as a multiple of the time that the segment took: sealing a
/// long log uses at most a fifth of the time of one session.
const REST_FACTOR: u32 = 4;
/// Longest pause between two segments.
const REST_MAX: Duration = Duration::from_secs(5);

/// Value of the metric's label `reason` for a damaged log.
const UNSOUND: &str = "unsound";
/// Value of the metric's label `reason` for an error of the database, or no answer.
const UNREACHABLE: &str = "unreachable";

/// Background task that seals segments of the log.
pub struct Sealer {
    pool: PgPool,
    events_per_segment: i64,
    /// Failures that were logged since the last round without failure; each is logged once.
    logged_failures: HashSet<String>,
}

impl Sealer {
    /// Returns a sealer that uses one session of `pool` at a time.
    pub fn new(pool: PgPool) -> Self {
        Self {
            pool,
            events_per_segment: EVENTS_PER_SEGMENT,
            logged_failures: HashSet::new(),
        }
    }

    /// Replaces [`EVENTS_PER_SEGMENT`], for tests.
    #[must_use]
    pub fn with_events_per_segment(self, events_per_segment: i64) -> Self {
        Self {
            events_per_segment,
            ..self
        }
    }

    /// Seals segments until the shutdown.
    ///
    /// # Errors
    /// Never returns an error: failures are logged and retried.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        for reason in [UNSOUND, UNREACHABLE] {
            counter!(LOG_SEALING_FAILURES_TOTAL, "reason" => reason).increment(0);
        }
        let rounds = async {
            loop {
                if self.round().await == 0 {
                    tokio::time::sleep(IDLE_INTERVAL).await;
                }
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            () = rounds => Ok(()),
        }
    }

    /// Seals one segment of each shard that has enough unsealed events, and returns the number of
    /// segments. Returns 0 after a failure, or if another instance holds the advisory lock.
    pub async fn round(&mut self) -> usize {
        match self.try_round().await {
            Ok(sealed) => sealed,
            Err(error) => {
                self.record_failure(&error.into());
                0
            }
        }
    }

    async fn try_round(&mut self) -> sqlx::Result<usize> {
        // A timeout may leave the lock with a session of the pool: this sealer acquires the lock again
        // in a round that gets this session, or after the pool has replaced the session.
        let mut session = self.pool.acquire().await?;
        within(
            SEALING_TIMEOUT,
            sqlx::raw_sql(SET_IDLE_TIMEOUT).execute(&mut *session),
        )
        .await?;
        match within(SEALING_TIMEOUT, SEALER_LOCK.try_acquire(session)).await? {
            Either::Left(mut lock) => {
                let sealed = match self.seal_shards(&mut lock).await {
                    Ok(sealed) => sealed,
                    Err(error) => {
                        // Closing the session releases the lock. A failed read may have left its answer there.
                        lock.leak().close_on_drop();
                        return Err(error);
                    }
                };
                within(SEALING_TIMEOUT, lock.release_now()).await?;
                Ok(sealed)
            }
            Either::Right(mut session) => {
                // Every instance reports the positions: the alert on sealing compares instances.
                let shards = within(SEALING_TIMEOUT, segments::seal_states(&mut *session)).await?;
                for (shard, state) in Shard::all().zip(&shards) {
                    report_sealed(shard, state.last.as_ref());
                }
                Ok(0)
            }
        }
    }

    async fn seal_shards(&mut self, session: &mut PgConnection) -> sqlx::Result<usize> {
        let shards = within(SEALING_TIMEOUT, segments::seal_states(&mut *session)).await?;
        let (mut sealed, mut failed) = (0, 0);
        for (shard, state) in Shard::all().zip(&shards) {
            let begun = Instant::now();
            let sealing = seal_next(session, shard, state, self.events_per_segment);
            match within(SEALING_TIMEOUT, sealing).await {
                Ok(None) => {}
                Ok(Some(segment)) => {
                    sealed += 1;
                    report_sealed(shard, Some(&segment));
                    tokio::time::sleep(REST_MAX.min(begun.elapsed() * REST_FACTOR)).await;
                }
                // A damaged page concerns one shard; after any other error the session cannot be used.
                Err(SealError::Database(error)) if !is_of_storage(&error) => return Err(error),
                Err(error) => {
                    failed += 1;
                    self.record_failure(&error);
                }
            }
        }
        if failed == 0 && !self.logged_failures.is_empty() {
            self.logged_failures.clear();
            tracing::info!("segments of the log can be sealed again");
        }
        Ok(sealed)
    }

    fn record_failure(&mut self, error: &SealError) {
        let reason = match error {
            SealError::Unsound { .. } => UNSOUND,
            SealError::Database(_) => UNREACHABLE,
            SealError::Epoch { .. } => {
                tracing::info!(%error, "the next segment is sealed in the new epoch of the log");
                return;
            }
        };
        counter!(LOG_SEALING_FAILURES_TOTAL, "reason" => reason).increment(1);
        if !self.logged_failures.insert(error.to_string()) {
            return;
        }
        if reason == UNSOUND {
            tracing::error!(%error, "the log is damaged");
        } else {
            tracing::warn!(
                %error,
                source = error.source(),
                "the segment could not be sealed; the next round retries"
            );
        }
    }
}

/// Seals the next segment of a shard, unless the shard has too few unsealed events.
async fn seal_next(
    session: &mut PgConnection,
    shard: Shard,
    state: &SealState,
    events_per_segment: i64,
) -> Result<Option<Segment>, SealError> {
    let last = state.last.as_ref();
    report_sealed(shard, last);
    let place = Segment::next(last, shard, state.epoch, events_per_segment);
    if state.head + 1 < place.first_position {
        let what = format!("the log ends at position {} already", state.head);
        return Err(SealError::Unsound { place, what });
    }
    if state.head < place.last_position {
        return Ok(None);
    }
    segments::seal(session, place, last).await.map(Some)
}

/// Reports the last sealed position of a shard as a metric.
fn report_sealed(shard: Shard, last: Option<&Segment>) {
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    let position = last.map_or(0.0, |segment| segment.place.last_position as f64);
    gauge!(LOG_SEALED_POSITION, "shard" => shard.to_string()).set(position);
}
