//! Polls the checkpoints once for all requests that wait for the read tables.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use linkledger_core::{
    databases::Databases,
    event_store::log::{self, PerShard},
    lifecycle::Tasks,
    projection::Projection,
};
use sqlx::PgPool;
use tokio::{
    sync::{Notify, watch},
    time::{interval, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::read_model::{self, Checkpoints, LogPosition, try_read_in_time};

/// Interval of polling the checkpoints while a request waits.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Delay before the next poll after a failed poll.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Interval of polling the epoch of the log, which only a restore changes.
const EPOCH_INTERVAL: Duration = Duration::from_secs(10);

/// Polls the checkpoints while a request waits, and the epoch of the log at all times.
pub(crate) struct CheckpointWatcher {
    /// Latest checkpoints. Each waiting request holds one receiver.
    published: watch::Sender<Checkpoints>,
    request_waits: Notify,
    log_epoch: AtomicI32,
}

impl CheckpointWatcher {
    /// Reads the epoch and starts the background task.
    pub(crate) async fn start(
        databases: Databases,
        tasks: &mut Tasks,
    ) -> anyhow::Result<Arc<Self>> {
        let epoch = log::epoch(&databases.log)
            .await
            .context("cannot read the epoch of the log")?;
        let watcher = Arc::new(Self {
            published: watch::Sender::new(Checkpoints::default()),
            request_waits: Notify::new(),
            log_epoch: AtomicI32::new(epoch),
        });
        let task = Arc::clone(&watcher).watch(databases, tasks.drained());
        tasks.spawn_until_drained("checkpoint watcher", task);
        Ok(watcher)
    }

    /// Returns the epoch of the log, stale by at most `EPOCH_INTERVAL` while the database answers.
    pub(crate) fn log_epoch(&self) -> i32 {
        self.log_epoch.load(Ordering::Relaxed)
    }

    /// Waits until a poll that ends after this call reads checkpoints that satisfy `is_enough`.
    /// Earlier polls do not count: the caller has just read newer checkpoints.
    pub(crate) async fn wait_until(
        &self,
        projection: Projection,
        is_enough: impl Fn(&PerShard<LogPosition>) -> bool,
    ) {
        let mut receiver = self.published.subscribe();
        self.request_waits.notify_one();
        loop {
            receiver
                .changed()
                .await
                .expect("the sender lives as long as `self`");
            if is_enough(&receiver.borrow_and_update()[projection.index()]) {
                return;
            }
        }
    }

    async fn watch(
        self: Arc<Self>,
        databases: Databases,
        drained: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut epoch_is_due = interval(EPOCH_INTERVAL);
        loop {
            tokio::select! {
                biased;
                _ = epoch_is_due.tick() => self.poll_epoch(&databases.log).await,
                () = self.until_a_request_waits() => self.poll_checkpoints(&databases.read).await,
                () = drained.cancelled() => return Ok(()),
            }
        }
    }

    async fn until_a_request_waits(&self) {
        while self.published.receiver_count() == 0 {
            self.request_waits.notified().await;
        }
    }

    async fn poll_checkpoints(&self, pool: &PgPool) {
        let pause = match try_read_in_time(|| read_model::checkpoints(pool)).await {
            Ok(checkpoints) => {
                self.published.send_replace(checkpoints);
                POLL_INTERVAL
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "cannot read the checkpoints; retrying in 250 ms");
                RETRY_DELAY
            }
        };
        sleep(pause).await;
    }

    async fn poll_epoch(&self, pool: &PgPool) {
        match try_read_in_time(|| log::epoch(pool)).await {
            Ok(epoch) => {
                if self.log_epoch.swap(epoch, Ordering::Relaxed) != epoch {
                    tracing::info!(epoch, "the epoch of the log has changed");
                }
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "cannot read the epoch of the log; retrying in 10 s");
            }
        }
    }
}
