//! Polls the checkpoints once for all requests that wait for the read tables.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicI64, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use linkledger_core::projection::Projection;
use linkledger_event_store::{
    log::PerShard,
    log_meta::{self, LogMeta},
};
use linkledger_service::{databases::Databases, lifecycle::Tasks};
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
/// Interval of polling the epoch of the log and the price of a link: a restore changes the former, a restart of
/// command-api with another setting the latter.
const LOG_META_INTERVAL: Duration = Duration::from_secs(10);

/// Polls the checkpoints while a request waits, and at all times the epoch of the log and the price of a link.
pub(crate) struct CheckpointWatcher {
    /// Latest checkpoints. Each waiting request holds one receiver.
    published: watch::Sender<Checkpoints>,
    request_waits: Notify,
    log_epoch: AtomicI32,
    link_price: AtomicI64,
}

impl CheckpointWatcher {
    /// Reads the epoch and the price, and starts the background task.
    pub(crate) async fn start(
        databases: Databases,
        tasks: &mut Tasks,
    ) -> anyhow::Result<Arc<Self>> {
        let LogMeta { epoch, link_price } = log_meta::read(&databases.log)
            .await
            .context("cannot read the epoch of the log and the price of a link")?;
        let watcher = Arc::new(Self {
            published: watch::Sender::new(Checkpoints::default()),
            request_waits: Notify::new(),
            log_epoch: AtomicI32::new(epoch),
            link_price: AtomicI64::new(link_price),
        });
        let task = Arc::clone(&watcher).watch(databases, tasks.drained());
        tasks.spawn_until_drained("checkpoint watcher", task);
        Ok(watcher)
    }

    /// Returns the epoch of the log, stale by at most `LOG_META_INTERVAL` while the database answers.
    pub(crate) fn log_epoch(&self) -> i32 {
        self.log_epoch.load(Ordering::Relaxed)
    }

    /// Returns the price of a link, stale by at most `LOG_META_INTERVAL` while the database answers.
    pub(crate) fn link_price(&self) -> i64 {
        self.link_price.load(Ordering::Relaxed)
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
        let mut log_meta_is_due = interval(LOG_META_INTERVAL);
        loop {
            tokio::select! {
                biased;
                _ = log_meta_is_due.tick() => self.poll_log_meta(&databases.log).await,
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

    async fn poll_log_meta(&self, pool: &PgPool) {
        match try_read_in_time(|| log_meta::read(pool)).await {
            Ok(LogMeta { epoch, link_price }) => {
                if self.log_epoch.swap(epoch, Ordering::Relaxed) != epoch {
                    tracing::info!(epoch, "the epoch of the log has changed");
                }
                if self.link_price.swap(link_price, Ordering::Relaxed) != link_price {
                    tracing::info!(link_price, "the price of a link has changed");
                }
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "cannot read the epoch of the log and the price of a link; retrying in 10 s"
                );
            }
        }
    }
}
