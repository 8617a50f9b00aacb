//! One watcher of checkpoints for all requests that wait, in place of a poll for each of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use linkledger_core::{
    event_store::{
        log::{self, PerShard},
        time_limit::{ANSWER_TIME_MAX, within},
    },
    lifecycle::Tasks,
};
use sqlx::PgPool;
use tokio::{
    sync::{Notify, watch},
    time::{interval, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::read_model::{self, Checkpoints, Place};

/// Time between two looks at the checkpoints while somebody waits.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time until the next look after one that failed.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Time between two looks at the epoch of the log, which only a restore changes.
const EPOCH_INTERVAL: Duration = Duration::from_secs(10);

/// A projection that requests wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Projection {
    Links,
    Redirects,
    Credits,
}

impl Projection {
    fn of(self, checkpoints: &Checkpoints) -> &PerShard<Place> {
        match self {
            Self::Links => &checkpoints.links,
            Self::Redirects => &checkpoints.redirects,
            Self::Credits => &checkpoints.credits,
        }
    }
}

/// Looks at the checkpoints while somebody waits, and knows the epoch of the log.
pub(crate) struct CheckpointWatcher {
    /// Its receivers are those who wait.
    published: watch::Sender<Checkpoints>,
    somebody_waits: Notify,
    log_epoch: AtomicI32,
}

impl CheckpointWatcher {
    /// Reads the epoch and starts the background task.
    pub(crate) async fn start(pool: PgPool, tasks: &mut Tasks) -> anyhow::Result<Arc<Self>> {
        let epoch = log::epoch(&pool)
            .await
            .context("can't read the epoch of the log")?;
        let watcher = Arc::new(Self {
            published: watch::Sender::new(Checkpoints::default()),
            somebody_waits: Notify::new(),
            log_epoch: AtomicI32::new(epoch),
        });
        let task = Arc::clone(&watcher).watch(pool, tasks.drained());
        tasks.spawn_until_drained("checkpoint watcher", task);
        Ok(watcher)
    }

    /// The epoch of the log, as of a short while ago.
    pub(crate) fn log_epoch(&self) -> i32 {
        self.log_epoch.load(Ordering::Relaxed)
    }

    /// Waits until a look at the checkpoints that ends after this call finds one that satisfies
    /// `is_enough`. Looks before this call don't count: the caller has just seen for itself.
    pub(crate) async fn wait_until(
        &self,
        projection: Projection,
        is_enough: impl Fn(&PerShard<Place>) -> bool,
    ) {
        let mut receiver = self.published.subscribe();
        self.somebody_waits.notify_one();
        loop {
            receiver
                .changed()
                .await
                .expect("the sender lives as long as `self`");
            if is_enough(projection.of(&receiver.borrow_and_update())) {
                return;
            }
        }
    }

    async fn watch(
        self: Arc<Self>,
        pool: PgPool,
        drained: CancellationToken,
    ) -> anyhow::Result<()> {
        let mut epoch_is_due = interval(EPOCH_INTERVAL);
        loop {
            tokio::select! {
                biased;
                _ = epoch_is_due.tick() => self.look_at_epoch(&pool).await,
                () = self.until_somebody_waits() => self.look_at_checkpoints(&pool).await,
                () = drained.cancelled() => return Ok(()),
            }
        }
    }

    async fn until_somebody_waits(&self) {
        while self.published.receiver_count() == 0 {
            self.somebody_waits.notified().await;
        }
    }

    async fn look_at_checkpoints(&self, pool: &PgPool) {
        let pause = match within(ANSWER_TIME_MAX, read_model::checkpoints(pool)).await {
            Ok(checkpoints) => {
                self.published.send_replace(checkpoints);
                POLL_INTERVAL
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "can't read the checkpoints");
                RETRY_DELAY
            }
        };
        sleep(pause).await;
    }

    async fn look_at_epoch(&self, pool: &PgPool) {
        match within(ANSWER_TIME_MAX, log::epoch(pool)).await {
            Ok(epoch) => {
                if self.log_epoch.swap(epoch, Ordering::Relaxed) != epoch {
                    tracing::info!(epoch, "the log has another epoch");
                }
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "can't read the epoch of the log");
            }
        }
    }
}
