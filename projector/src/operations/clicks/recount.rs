//! Recount of the figures of clicks, with the countings paused meanwhile.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow};
use linkledger_core::{
    click::Counting,
    event_store::{time_limit::within, transaction::PoolTransaction},
    kafka_config::KafkaConfig,
    lifecycle,
};
use serde::Serialize;
use sqlx::PgPool;
use time::OffsetDateTime;

use super::{OperatorName, change, change_in_tx, change_since};
use crate::{
    clicks::recount::{Recount, RecountProgress, RecountScope, Recounted},
    operations::{
        audit::{self, OperationOutcome, OperatorCommand},
        figures::{counted, grouped},
        pause::PauseChange,
        progress::ProgressSink,
    },
};

/// Longest wait for a rollback, which waits for the running statement.
const ROLLBACK_TIME_MAX: Duration = Duration::from_secs(10);
/// Outcome of a failure before the commit.
const UNCHANGED: &str = "the figures are as before";

/// Outcome of a recount, or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecountReport {
    /// True if nothing was changed.
    pub dry_run: bool,
    /// First UTC day, such as `2026-11-23`.
    pub from: String,
    /// Records that were read.
    pub records: u64,
    /// Records of them with clicks of the days, repeats included.
    pub records_of_days: u64,
    /// Clicks of the figures before, bots included.
    pub clicks_before: i64,
    /// Clicks of the new figures; absent for a dry run.
    pub clicks: Option<i64>,
    /// Countings that were paused before the command, and stay paused.
    pub paused: Vec<Counting>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Progress of a recount as a phase of a command.
struct Phase<'a>(&'a dyn ProgressSink);

impl RecountProgress for Phase<'_> {
    fn begin(&self, records: u64) {
        self.0.enter("counting again", records, "records");
    }

    fn advance(&self, records: u64) {
        self.0.advance(records);
    }
}

/// Returns what a recount would count. Changes nothing.
///
/// # Errors
/// Returns a [`RecountRefusal`](crate::clicks::recount::RecountRefusal) that is found before the counting starts, or
/// an error of the database or of Kafka.
pub async fn preview(
    pool: &PgPool,
    kafka: &KafkaConfig,
    scope: RecountScope,
    progress: &dyn ProgressSink,
) -> anyhow::Result<RecountReport> {
    let (begun_at, phase) = (Instant::now(), Phase(progress));
    let previewed = Recount::new(pool, kafka, scope, &phase)?.preview().await?;
    let mut paused = super::paused(pool, &Counting::ALL).await?;
    paused.retain(|(_, paused_at)| paused_at.is_some());
    let paused = paused.into_iter().map(|(counting, _)| counting).collect();
    let report = RecountReport::new(scope, previewed, paused, begun_at);
    Ok(RecountReport {
        dry_run: true,
        clicks: None,
        ..report
    })
}

/// Countings that the command has paused.
struct OwnPause {
    countings: Vec<Counting>,
    /// Instant of the pause; `None` if all were paused before.
    since: Option<OffsetDateTime>,
}

/// Pauses both countings. One transaction replaces the figures and resumes the countings that this call paused.
/// After a failure or a signal the figures are unchanged, and the same countings resume.
///
/// # Errors
/// Returns a [`RecountRefusal`](crate::clicks::recount::RecountRefusal), or an error of the database or of Kafka.
pub async fn recount(
    pool: &PgPool,
    kafka: &KafkaConfig,
    scope: RecountScope,
    operator: OperatorName<'_>,
    progress: &dyn ProgressSink,
) -> anyhow::Result<RecountReport> {
    let (begun_at, phase) = (Instant::now(), Phase(progress));
    let recount = Recount::new(pool, kafka, scope, &phase)?;
    let tx = recount.begin().await.context(UNCHANGED)?;
    let (name, reason) = operator;
    let states = change(pool, &Counting::ALL, PauseChange::Pause, name, reason).await;
    let states = states.context(UNCHANGED)?;
    let of = |is_changed: bool| -> Vec<Counting> {
        let states = states.iter().filter(|it| it.is_changed == is_changed);
        states.map(|it| it.counting).collect()
    };
    let changed = states.iter().find(|it| it.is_changed);
    let pause = OwnPause {
        countings: of(true),
        since: changed.and_then(|it| it.paused_at),
    };
    match replace(tx, recount, &pause, operator).await {
        Ok(recounted) => Ok(RecountReport::new(scope, recounted, of(false), begun_at)),
        Err(failure) => {
            let OwnPause { countings, since } = &pause;
            let resumed = change_since(pool, countings, PauseChange::Resume, *since, operator);
            Err(match resumed.await {
                Ok(_) => failure,
                Err(error) => failure.context(format!(
                    "the countings stay paused, because {error:#}; resume them: `projector clicks resume --all`"
                )),
            })
        }
    }
}

/// Replaces the figures, resumes the countings, and records the command, in one transaction. A signal before the
/// commit rolls back.
async fn replace(
    mut tx: PoolTransaction,
    mut recount: Recount<'_>,
    pause: &OwnPause,
    (operator, reason): OperatorName<'_>,
) -> anyhow::Result<Recounted> {
    let interrupted = lifecycle::interrupted()?;
    let replaced = tokio::select! {
        biased;
        replaced = recount.replace_in_tx(&mut tx) => replaced,
        () = interrupted => Err(anyhow!("ended by a signal")),
    };
    let recounted = match replaced {
        Ok(recounted) => recounted,
        Err(error) => {
            // The locks must be gone before the countings are resumed. A broken connection has none.
            if let Err(error) = within(ROLLBACK_TIME_MAX, tx.rollback()).await {
                tracing::debug!(%error, "cannot roll back a recount");
            }
            return Err(error.context(UNCHANGED));
        }
    };
    let from = recount.from().to_string();
    let command = OperatorCommand {
        name: "clicks recount",
        projections: &[],
        subject: Some(&from),
        operator,
        reason,
    };
    let clicks = |clicks: i64| counted(clicks.unsigned_abs(), "click");
    let detail = format!(
        "{} of {}, {} before",
        clicks(recounted.clicks),
        counted(recounted.records, "record"),
        clicks(recounted.clicks_before)
    );
    let recorded = audit::record_in_tx(&mut tx, &command, OperationOutcome::Done, &detail).await;
    recorded.context(UNCHANGED)?;
    let OwnPause { countings, since } = pause;
    let operator = (operator, reason);
    let resumed = change_in_tx(&mut tx, countings, PauseChange::Resume, *since, operator).await;
    resumed.context(UNCHANGED)?;
    let committed = tx.commit().await;
    committed.context("cannot read the outcome of the commit: run the command again")?;
    Ok(recounted)
}

impl RecountReport {
    fn new(
        scope: RecountScope,
        recounted: Recounted,
        paused: Vec<Counting>,
        begun_at: Instant,
    ) -> Self {
        Self {
            dry_run: false,
            from: scope.from.to_string(),
            records: recounted.records,
            records_of_days: recounted.records_of_days,
            clicks_before: recounted.clicks_before,
            clicks: Some(recounted.clicks),
            paused,
            seconds: begun_at.elapsed().as_secs_f64(),
        }
    }
}

impl fmt::Display for RecountReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, before) = (&self.from, grouped(self.clicks_before));
        let records = counted(self.records, "record");
        let of_days = grouped(self.records_of_days.cast_signed());
        match self.clicks {
            None => write!(
                f,
                "The figures since {from} UTC have {before} clicks. {records} of the topic were read, {of_days} of \
                 them with clicks since {from}: the figures would be deleted, and made again from those. Nothing \
                 refuses it before the count."
            )?,
            Some(clicks) => write!(
                f,
                "The figures since {from} UTC were counted again: {} clicks of {records} in {:.1} s; {before} \
                 clicks before.",
                grouped(clicks),
                self.seconds
            )?,
        }
        for counting in &self.paused {
            write!(
                f,
                "\n`{counting}` was paused before, and stays paused: `projector clicks resume {counting}`"
            )?;
        }
        Ok(())
    }
}
