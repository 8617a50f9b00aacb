//! Follows the end of the log, and reports heads and epoch. Alerts compare relay and projectors with
//! the heads even while no relay or projector runs; an operator may raise the epoch at any time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use linkledger_core::shard::Shard;
use linkledger_event_store::{
    log,
    time_limit::{ANSWER_TIME_MAX, within},
};
use linkledger_service::metrics::LOG_HEAD;
use metrics::gauge;
use sqlx::PgPool;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Interval between two reads of the end of the log.
const INTERVAL: Duration = Duration::from_secs(1);

/// Epoch of the log as of the last read. Clones share the value.
#[derive(Debug, Clone)]
pub struct LogEpoch(Arc<AtomicI32>);

impl LogEpoch {
    /// Returns a shared epoch with that value.
    pub fn new(epoch: i32) -> Self {
        Self(Arc::new(AtomicI32::new(epoch)))
    }

    /// Returns the epoch.
    pub fn get(&self) -> i32 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, epoch: i32) {
        if self.0.swap(epoch, Ordering::Relaxed) != epoch {
            tracing::info!(epoch, "the epoch of the log has changed");
        }
    }
}

/// Follows the end of the log until the shutdown.
///
/// # Errors
/// Never returns an error: a read that fails is retried.
pub async fn follow(
    pool: PgPool,
    epoch: LogEpoch,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    while !shutdown.is_cancelled() {
        report_end(&pool, &epoch).await;
        timeout(INTERVAL, shutdown.cancelled()).await.ok();
    }
    Ok(())
}

/// Reads the end of the log once, and reports heads and epoch.
async fn report_end(pool: &PgPool, epoch: &LogEpoch) {
    let end = match within(ANSWER_TIME_MAX, log::end(pool)).await {
        Ok(end) => end,
        Err(error) => {
            // The relay logs an outage of the database, together with the backlog.
            tracing::debug!(%error, "cannot read the end of the log");
            return;
        }
    };
    epoch.set(end.epoch);
    for shard in Shard::all() {
        #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
        let head = end.heads[shard.index()] as f64;
        gauge!(LOG_HEAD, "shard" => shard.to_string()).set(head);
    }
}
