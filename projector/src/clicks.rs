//! Counts clicks: statistics of links and accounts, from the records of the topic of clicks.
//!
//! The aggregation reads the partitions of the shards that the process has claimed: `run` is its loop. A `batch` of one
//! partition is one transaction that moves the [`position`] from the value that the process has read, so that a
//! crash, a duplicate or a second projector counts no click twice. Repeats within the topic are dropped by the
//! sequences of their recorders.
//!
//! The transaction also notes the first click of each link, and the clicks by minute of accounts whose webhooks want
//! them: command-api makes events of the log of both, where the log is in the same database.
//!
//! Nothing here ends the process, or delays another partition or a projection.

mod batch;
mod claimed_partition;
mod consumer;
pub mod housekeeping;
mod partition_days;
pub mod position;
pub mod recount;
mod report;
mod rows;
mod run;
mod topic_ends;

use std::{future::Future, time::Duration};

use linkledger_event_store::SessionKind;
use linkledger_service::{
    databases::Databases,
    lifecycle::Tasks,
    metrics::{CLICKS_MISSING_TOTAL, CLICKS_UNREADABLE_TOTAL},
};
use metrics::counter;
use sqlx::PgPool;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub use self::{report::keep_reported, run::AggregationLoop};
use crate::{Config, pipeline::claims::ClaimedShards};

/// Sessions of the aggregation and its housekeeping.
pub const CONNECTIONS_MAX: u32 = 2;

/// Time for which a click waits for a fuller batch while nothing lags.
pub(crate) const BATCH_INTERVAL: Duration = Duration::from_secs(2);

/// Longest time to count to the end of the topic at a stop, below the time that [`Tasks`] allows.
const END_OF_TOPIC_TIME_MAX: Duration = Duration::from_millis(2_500);

const TASK_NAME: &str = "clicks: aggregation";

/// Ends of an aggregation.
#[derive(Debug, Clone, Default)]
pub struct AggregationEnd {
    /// The aggregation finishes the batch in hand and ends.
    pub now: CancellationToken,
    /// The aggregation counts everything that the topic has now, and ends.
    pub at_end_of_topic: CancellationToken,
}

/// Stop of the aggregation of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregationStop {
    /// At the shutdown: the next process continues.
    AtShutdown,
    /// Once every recorder of the process has published its clicks, at the end of the topic: for a process
    /// whose broker ends with it.
    AtEndOfTopic,
}

/// Starts the aggregation and its housekeeping as tasks of `tasks`; only the retention if clicks are switched off.
///
/// # Errors
/// Returns an error if the address of the database cannot be parsed.
pub fn start(
    config: &Config,
    log: PgPool,
    claimed: &ClaimedShards,
    stop: AggregationStop,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    let pool = pool(config)?;
    let (of_housekeeping, clicks) = (pool.clone(), config.clicks.clone());
    tasks.spawn_housekeeping("clicks: partitions, salts, pruning", move |shutdown| {
        housekeeping::keep(of_housekeeping.clone(), clicks.clone(), shutdown)
    });
    if !config.clicks.are_on() {
        return Ok(());
    }
    begin_counters();
    let databases = Databases {
        log,
        read: pool.clone(),
    };
    let (config, claimed) = (config.clone(), claimed.clone());
    let count = move |end: AggregationEnd| {
        let aggregation = AggregationLoop::new(&config, databases.clone(), claimed.clone());
        async move { aggregation?.run(end).await }
    };
    match stop {
        AggregationStop::AtShutdown => tasks.spawn_housekeeping(TASK_NAME, move |shutdown| {
            count(AggregationEnd {
                now: shutdown,
                ..AggregationEnd::default()
            })
        }),
        AggregationStop::AtEndOfTopic => {
            tasks.spawn_housekeeping_until_flushed(TASK_NAME, move |flushed| {
                let end = AggregationEnd {
                    at_end_of_topic: flushed,
                    ..AggregationEnd::default()
                };
                until_end_of_topic(count(end.clone()), end)
            });
        }
    }
    tasks.spawn_housekeeping("clicks: report", move |shutdown| {
        keep_reported(pool.clone(), shutdown)
    });
    Ok(())
}

/// Waits for the aggregation, which counts to the end of the topic once the process is flushed, for at most
/// [`END_OF_TOPIC_TIME_MAX`]; then ends it.
async fn until_end_of_topic(
    aggregation: impl Future<Output = anyhow::Result<()>>,
    end: AggregationEnd,
) -> anyhow::Result<()> {
    let end_now_in_time = async {
        end.at_end_of_topic.cancelled().await;
        sleep(END_OF_TOPIC_TIME_MAX).await;
        tracing::warn!(
            seconds = END_OF_TOPIC_TIME_MAX.as_secs_f64(),
            "the stop ends the aggregation of clicks before the end of the topic: the clicks of the last seconds that are \
             not counted are lost with the embedded broker"
        );
        end.now.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        counted = aggregation => counted,
        () = end_now_in_time => Ok(()),
    }
}

/// Returns the pool of the aggregation.
///
/// # Errors
/// Returns an error if the address of the database cannot be parsed.
pub fn pool(config: &Config) -> sqlx::Result<PgPool> {
    let url = config.databases.read_url();
    linkledger_event_store::pool(url, SessionKind::Projector, CONNECTIONS_MAX)
}

/// Starts the counters at 0, so that the first event is an increase.
fn begin_counters() {
    for name in [CLICKS_MISSING_TOTAL, CLICKS_UNREADABLE_TOTAL] {
        counter!(name).increment(0);
    }
}
