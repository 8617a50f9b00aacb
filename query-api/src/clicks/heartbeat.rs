//! Heartbeats of the recorder: until when it has recorded, so that readers know until when statistics are
//! complete.
//!
//! While the database does not answer, clicks are recorded all the same, and heartbeats are retried.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use linkledger_clicks::RecorderId;
use linkledger_core::clock::Clock;
use linkledger_event_store::transaction::PoolTransaction;
use linkledger_service::metrics::CLICKS_HEARTBEAT_AGE_SECONDS;
use metrics::gauge;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{merged::instant_of, recorder::RecordingProgress, salts::Salts};

/// Interval between two heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of one heartbeat.
const HEARTBEAT_TIME_MAX: Duration = Duration::from_secs(3);
/// Timeout of the last heartbeat, which ends before the drain time of the process.
const LAST_HEARTBEAT_TIME_MAX: Duration = Duration::from_millis(1_500);
/// Longest wait for the flush of the recorder after the last request.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(11);
/// Interval between two reads of the salts while all are known.
const SALTS_INTERVAL: Duration = Duration::from_mins(1);
/// Number of rows of heartbeats at which every second row is deleted, except the newest rows: heartbeats stay few
/// while the aggregation lags for long.
const ROWS_MAX: i64 = 100;
/// Number of the newest rows, which are not deleted before they are counted.
const NEWEST_ROWS: i64 = 20;

/// Writer of the heartbeats of one recorder.
pub(super) struct Heartbeats {
    pub(super) pool: PgPool,
    pub(super) recorder_id: RecorderId,
    pub(super) started_at: OffsetDateTime,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) salts: Salts,
    pub(super) progress: watch::Receiver<RecordingProgress>,
    /// Highest instant of the heartbeats that the database has, or may have, in milliseconds since 1970: no later click
    /// may have an earlier instant. Heartbeats raise the claim before they are written, while they borrow the progress,
    /// and lower it after the commit that has deleted higher ones. The recorder reads the claim while it changes the
    /// progress.
    pub(super) claimed_until_ms: Arc<AtomicI64>,
}

impl Heartbeats {
    /// Inserts the recorder and reads the salts. Must succeed before the short host accepts requests.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub(super) async fn begin(&self) -> anyhow::Result<()> {
        let registering = async {
            let progress = self.progress.borrow().clone();
            self.upsert_recorder(&self.pool, &progress).await?;
            self.salts.read(&self.pool, self.clock.now().date()).await
        };
        let registered = timeout(HEARTBEAT_TIME_MAX, registering).await;
        registered
            .context("the database does not answer within 3 s")?
            .context(
                "cannot register the recorder of clicks in the database; if a right is missing, run \
                 deploy/postgres/roles.sql",
            )
    }

    /// Writes heartbeats until the process is drained, and the last one after the flush.
    ///
    /// # Errors
    /// Never returns an error: failures of the database are logged and retried.
    pub(super) async fn run(&self, drained: CancellationToken) -> anyhow::Result<()> {
        let mut due = interval(HEARTBEAT_INTERVAL);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut beat_at, mut salts_at) = (Instant::now(), Instant::now());
        let mut is_beating = true;
        loop {
            tokio::select! {
                _ = due.tick() => {}
                () = drained.cancelled() => break,
            }
            let today = self.clock.now().date();
            let reads_salts =
                !self.salts.are_complete(today) || salts_at.elapsed() >= SALTS_INTERVAL;
            let outcome = tokio::select! {
                outcome = self.beat_in_time(reads_salts) => outcome,
                () = drained.cancelled() => break,
            };
            if outcome.is_ok() {
                beat_at = Instant::now();
                salts_at = if reads_salts { beat_at } else { salts_at };
            }
            gauge!(CLICKS_HEARTBEAT_AGE_SECONDS).set(beat_at.elapsed().as_secs_f64());
            log_changes(&outcome, is_beating);
            is_beating = outcome.is_ok();
        }
        self.end().await;
        Ok(())
    }

    async fn beat_in_time(&self, reads_salts: bool) -> anyhow::Result<()> {
        let beat = async {
            if reads_salts {
                self.salts.read(&self.pool, self.clock.now().date()).await?;
            }
            let progress = self.claim();
            self.beat(&progress).await
        };
        let beat = timeout(HEARTBEAT_TIME_MAX, beat).await;
        Ok(beat.context("the database does not answer within 3 s")??)
    }

    /// Returns the progress, after its instant is claimed: the recorder changes neither meanwhile.
    fn claim(&self) -> RecordingProgress {
        let progress = self.progress.borrow();
        self.claimed_until_ms
            .fetch_max(progress.recorded_until_ms, Ordering::SeqCst);
        progress.clone()
    }

    /// Writes the last heartbeat. Without it the recorder counts as dead after 60 s.
    async fn end(&self) {
        let mut progress = self.progress.clone();
        let flush = progress.wait_for(|it| it.is_flushed.is_some());
        let ended = timeout(FLUSH_WAIT_MAX, flush).await;
        let Ok(Ok(last)) = ended.map(|ended| ended.map(|last| last.clone())) else {
            return;
        };
        let write = async {
            self.beat(&last).await?;
            if last.is_flushed == Some(true) {
                sqlx::query!(
                    "UPDATE clicks.recorders SET ended_at = clock_timestamp() WHERE recorder_id = $1",
                    self.recorder_id.0
                )
                .execute(&self.pool)
                .await?;
            }
            sqlx::Result::Ok(())
        };
        let written = timeout(LAST_HEARTBEAT_TIME_MAX, write).await;
        if let Err(error) = written.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot write the last heartbeat of the recorder of clicks; statistics are complete again 60 s \
                 after the last one"
            );
        }
    }

    /// Writes a heartbeat.
    async fn beat(&self, progress: &RecordingProgress) -> sqlx::Result<()> {
        let mut tx = PoolTransaction::begin(&self.pool).await?;
        self.upsert_recorder(&mut *tx, progress).await?;
        let recorder_id = self.recorder_id.0;
        let recorded_until = instant_of(progress.recorded_until_ms);
        self.withdraw_later_ones(&mut tx, recorded_until).await?;
        // Rows before the newest one that the aggregation has passed say nothing any more.
        sqlx::query!(
            "
            DELETE FROM clicks.heartbeats
            WHERE recorder_id = $1 AND recorded_until < (
                SELECT max(passed.recorded_until)
                FROM clicks.heartbeats AS passed
                WHERE passed.recorder_id = $1 AND NOT EXISTS (
                    SELECT
                    FROM unnest(passed.sequences) WITH ORDINALITY AS recorded (sequence, number)
                    LEFT JOIN clicks.sequences AS counted
                      ON counted.partition = (recorded.number - 1)::smallint
                     AND counted.recorder_id = $1
                    WHERE recorded.sequence > coalesce(counted.sequence, 0)
                )
            )
            ",
            recorder_id
        )
        .execute(&mut *tx)
        .await?;
        sqlx::query!(
            "
            DELETE FROM clicks.heartbeats
            WHERE recorder_id = $1 AND recorded_until IN (
                SELECT recorded_until
                FROM (SELECT recorded_until, row_number() OVER (ORDER BY recorded_until DESC) AS nth,
                             count(*) OVER () AS rows
                      FROM clicks.heartbeats WHERE recorder_id = $1) AS beats
                -- The last row may be the newest that the aggregation has passed.
                WHERE rows >= $2 AND nth > $3 AND nth < rows AND nth % 2 = 0
            )
            ",
            recorder_id,
            ROWS_MAX,
            NEWEST_ROWS
        )
        .execute(&mut *tx)
        .await?;
        let sequences = progress.sequences.map(u64::cast_signed);
        // An earlier row of the same instant needs fewer sequences for it.
        sqlx::query!(
            "
            INSERT INTO clicks.heartbeats (recorder_id, recorded_until, sequences)
            VALUES ($1, $2, $3)
            ON CONFLICT (recorder_id, recorded_until) DO NOTHING
            ",
            recorder_id,
            recorded_until,
            &sequences
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        self.claimed_until_ms
            .store(progress.recorded_until_ms, Ordering::SeqCst);
        Ok(())
    }

    /// Replaces heartbeats of later instants, after the clock was set back, by one of this instant, with the
    /// sequences of the earliest: more than this instant needs.
    async fn withdraw_later_ones(
        &self,
        session: &mut PgConnection,
        recorded_until: OffsetDateTime,
    ) -> sqlx::Result<()> {
        sqlx::query!(
            "
            WITH later AS (
                DELETE FROM clicks.heartbeats WHERE recorder_id = $1 AND recorded_until > $2
                RETURNING recorded_until, sequences
            )
            INSERT INTO clicks.heartbeats (recorder_id, recorded_until, sequences)
            SELECT $1, $2, sequences FROM later ORDER BY recorded_until LIMIT 1
            ON CONFLICT (recorder_id, recorded_until) DO NOTHING
            ",
            self.recorder_id.0,
            recorded_until
        )
        .execute(session)
        .await?;
        Ok(())
    }

    /// Inserts the recorder, or records that it lives.
    async fn upsert_recorder<'c>(
        &self,
        session: impl sqlx::PgExecutor<'c>,
        progress: &RecordingProgress,
    ) -> sqlx::Result<()> {
        sqlx::query!(
            "
            INSERT INTO clicks.recorders (recorder_id, started_at, same_address) VALUES ($1, $2, $3)
            ON CONFLICT (recorder_id) DO UPDATE
            SET seen_at = clock_timestamp(), same_address = excluded.same_address
            ",
            self.recorder_id.0,
            self.started_at,
            progress.has_same_address
        )
        .execute(session)
        .await?;
        Ok(())
    }
}

/// Logs an outage at its begin and at its end.
fn log_changes(outcome: &anyhow::Result<()>, was_beating: bool) {
    match outcome {
        Err(error) if was_beating => tracing::warn!(
            error = format!("{error:#}"),
            "cannot write heartbeats of the recorder of clicks; clicks are recorded all the same, and \
             heartbeats are retried every second"
        ),
        Ok(()) if !was_beating => {
            tracing::info!("writes heartbeats of the recorder of clicks again");
        }
        Ok(()) | Err(_) => {}
    }
}
