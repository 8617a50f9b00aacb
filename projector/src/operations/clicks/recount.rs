//! Recount of the figures of clicks, with the countings paused meanwhile.

use std::{fmt, time::Instant};

use anyhow::{Context as _, bail};
use linkledger_core::{click::Counting, kafka_config::KafkaConfig};
use serde::Serialize;
use sqlx::PgPool;

use super::change;
use crate::{
    clicks::recount::{Recount, RecountProgress, RecountScope, Recounted},
    operations::{
        audit::{self, CommandOutcome, OperatorCommand},
        figures::{counted, grouped},
        pause::PauseChange,
        progress::ProgressSink,
    },
};

/// Operator of the command, with the reason.
pub type OperatorName<'a> = (&'a str, Option<&'a str>);

/// Outcome of a recount, or of its dry run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecountReport {
    /// True if nothing was changed.
    pub dry_run: bool,
    /// First UTC day, such as `2026-11-23`.
    pub from: String,
    /// Records that were read, or are to be read.
    pub records: u64,
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

/// Returns what a recount would read. Changes nothing.
///
/// # Errors
/// Returns a [`RecountRefusal`](crate::clicks::recount::RecountRefusal), or an error of the database or of Kafka.
pub async fn look(
    pool: &PgPool,
    kafka: &KafkaConfig,
    scope: RecountScope,
    progress: &dyn ProgressSink,
) -> anyhow::Result<RecountReport> {
    let (begun_at, phase) = (Instant::now(), Phase(progress));
    let looked = Recount::new(pool, kafka, scope, &phase)?.look().await?;
    let mut paused = super::paused(pool, &Counting::ALL).await?;
    paused.retain(|(_, paused_at)| paused_at.is_some());
    let paused = paused.into_iter().map(|(counting, _)| counting).collect();
    let report = RecountReport::new(scope, looked, paused, begun_at);
    Ok(RecountReport {
        dry_run: true,
        clicks: None,
        ..report
    })
}

/// Pauses both countings, replaces the figures in one transaction, and resumes the countings that it paused, also
/// after a failure or a signal: the figures are then as before.
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
    let (name, reason) = operator;
    let states = change(pool, &Counting::ALL, PauseChange::Pause, name, reason).await?;
    let of = |is_changed: bool| -> Vec<Counting> {
        let states = states.iter().filter(|it| it.is_changed == is_changed);
        states.map(|it| it.counting).collect()
    };
    let (changed, paused) = (of(true), of(false));
    let replaced = replace(pool, recount, operator).await;
    if let Err(error) = change(pool, &changed, PauseChange::Resume, name, reason).await {
        let text = "the countings stay paused; resume them: `projector clicks resume --all`";
        return Err(match replaced {
            Ok(_) => error.context(text),
            Err(failure) => failure.context(text),
        });
    }
    Ok(RecountReport::new(scope, replaced?, paused, begun_at))
}

/// Replaces the figures, and records the command, in one transaction. A signal before the commit rolls back.
async fn replace(
    pool: &PgPool,
    mut recount: Recount<'_>,
    (operator, reason): OperatorName<'_>,
) -> anyhow::Result<Recounted> {
    let mut tx = pool.begin().await?;
    let replaced = tokio::select! {
        biased;
        replaced = recount.replace_in_tx(&mut tx) => replaced,
        signal = audit::interrupted() => signal.and_then(|()| bail!("ended by a signal")),
    };
    let recounted = replaced.context("the figures are as before")?;
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
    audit::record_in_tx(&mut tx, &command, CommandOutcome::Done, &detail).await?;
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
        match self.clicks {
            None => write!(
                f,
                "The figures since {from} UTC have {before} clicks; {records} of the topic would be counted again."
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
