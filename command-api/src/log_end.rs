//! Follows the end of the log, whoever publishes or projects it: shows the heads, with which an
//! alert compares when those who should follow the log are not there to say so, and knows the epoch,
//! which an operator may raise at any time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use linkledger_core::{
    event_store::{
        log,
        time_limit::{ANSWER_TIME_MAX, within},
    },
    metrics::LOG_HEAD,
    shard::Shard,
};
use metrics::gauge;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

/// How often the end is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// The epoch of the log, as of a short while ago. Clones share it.
#[derive(Debug, Clone)]
pub struct LogEpoch(Arc<AtomicI32>);

impl LogEpoch {
    /// As it is found.
    pub fn new(epoch: i32) -> Self {
        Self(Arc::new(AtomicI32::new(epoch)))
    }

    /// The epoch.
    pub fn get(&self) -> i32 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, epoch: i32) {
        if self.0.swap(epoch, Ordering::Relaxed) != epoch {
            tracing::info!(epoch, "the log has another epoch");
        }
    }
}

/// Follows the end until the shutdown.
///
/// # Errors
/// Never: what the database does not answer is asked again.
pub async fn follow(
    pool: PgPool,
    epoch: LogEpoch,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    while !shutdown.is_cancelled() {
        look(&pool, &epoch).await;
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = shutdown.cancelled() => {}
        }
    }
    Ok(())
}

async fn look(pool: &PgPool, epoch: &LogEpoch) {
    let end = match within(ANSWER_TIME_MAX, log::end(pool)).await {
        Ok(end) => end,
        Err(error) => {
            // The relay tells of a database that is away, with what waits for it.
            tracing::debug!(%error, "can't read where the log ends");
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
