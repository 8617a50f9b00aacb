//! A writer: takes batches from its queue and runs the batches one after the other. An account that
//! would delay the others gets a lane, a task with a session of its own.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use anyhow::Context as _;
use linkledger_core::id::AccountId;
use linkledger_service::metrics::{APPEND_BATCH_SIZE, COMMAND_QUEUE_DEPTH, COMMAND_WAIT_SECONDS};
use metrics::{Gauge, gauge, histogram};
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    QueuedCommand, Unavailable,
    account_queues::{AccountQueues, Assignment},
    batch_run,
};
use crate::command_handler::CommandHandler;

/// Maximum number of lanes of a writer. Each needs a session with the database.
pub(super) const LANES_MAX: u32 = 4;

/// Queue of a writer, which the requests fill and the tasks of the writer empty.
pub(super) struct WriterQueue {
    state: Mutex<QueueState>,
    /// Notified when the writer may have work.
    changed: Notify,
    depth: Gauge,
}

#[derive(Default)]
struct QueueState {
    accounts: AccountQueues,
    /// Set when no more commands come, or when no task runs them.
    is_closed: bool,
}

impl WriterQueue {
    pub(super) fn new(number: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: Notify::new(),
            depth: gauge!(COMMAND_QUEUE_DEPTH, "writer" => number.to_string()),
        })
    }

    /// Queues the commands of one account: all of them, or none. Then all are answered with the
    /// returned reason.
    pub(super) fn enqueue(&self, commands: Vec<QueuedCommand>) -> Result<(), Unavailable> {
        let mut state = self.state();
        let refused = if state.is_closed {
            Err((commands, Unavailable::StorageUnavailable))
        } else {
            let admitted = state.accounts.admit(commands);
            admitted.map_err(|commands| (commands, Unavailable::Overloaded))
        };
        drop(state);
        let Err((commands, reason)) = refused else {
            self.changed.notify_one();
            return Ok(());
        };
        for command in commands {
            command.answer(Err(reason));
        }
        Err(reason)
    }

    /// Refuses further commands.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_one();
    }

    /// Refuses further commands, and drops the queued ones: their outcome is unknown to the requests.
    fn abandon(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let abandoned = std::mem::take(&mut state.accounts);
        drop(state);
        drop(abandoned);
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        // No code panics while holding the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, free_lanes: usize) -> Assignment {
        let mut state = self.state();
        self.depth.set(count(state.accounts.len()));
        state.accounts.take(Instant::now(), free_lanes)
    }

    fn next_retry_at(&self) -> Option<Instant> {
        self.state().accounts.next_retry_at()
    }

    fn is_finished(&self) -> bool {
        let state = self.state();
        state.is_closed && state.accounts.len() == 0
    }

    /// Runs attempts of the account until the account has few commands left.
    async fn run_lane(self: Arc<Self>, handler: Arc<CommandHandler>, account_id: AccountId) {
        loop {
            let take = || {
                let batch = self.state().accounts.take_of(account_id, Instant::now());
                record_start(&batch);
                batch
            };
            let attempt = batch_run::run_lane(&handler, account_id, take).await;
            let mut state = self.state();
            let keeps_lane = state
                .accounts
                .finish_lane(account_id, attempt, Instant::now());
            drop(state);
            if !keeps_lane {
                self.changed.notify_one();
                return;
            }
        }
    }
}

/// Takes the commands of its queue in batches, and answers them.
pub struct Writer {
    queue: Arc<WriterQueue>,
    handler: Arc<CommandHandler>,
}

impl Writer {
    pub(super) fn new(number: usize, handler: CommandHandler) -> Self {
        Self {
            queue: WriterQueue::new(number),
            handler: Arc::new(handler),
        }
    }

    pub(super) fn queue(&self) -> Arc<WriterQueue> {
        Arc::clone(&self.queue)
    }

    /// Runs until the queue is closed and all commands are answered.
    ///
    /// # Errors
    /// Returns an error if a lane panics, or if the queue is closed before the shutdown.
    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let (queue, handler) = (&self.queue, &self.handler);
        let lanes_max = usize::try_from(LANES_MAX)?;
        let mut lanes = JoinSet::new();
        loop {
            while let Some(ended) = lanes.try_join_next() {
                ended.context("a lane of a writer has panicked")?;
            }
            let assignment = queue.take(lanes_max - lanes.len());
            if assignment.is_empty() {
                if queue.is_finished() {
                    anyhow::ensure!(
                        shutdown.is_cancelled(),
                        "all senders of the command queue are gone"
                    );
                    return Ok(());
                }
                wait(queue, &mut lanes).await?;
                continue;
            }
            for account_id in assignment.lanes {
                lanes.spawn(Arc::clone(queue).run_lane(Arc::clone(handler), account_id));
            }
            if !assignment.batch.is_empty() {
                run_batch(handler, queue, assignment.batch).await;
            }
        }
    }
}

impl Drop for Writer {
    /// Abandons the queue when the writer ends, as intended or not.
    fn drop(&mut self) {
        self.queue.abandon();
    }
}

/// Waits until the writer may have work.
async fn wait(queue: &WriterQueue, lanes: &mut JoinSet<()>) -> anyhow::Result<()> {
    let next_retry = async {
        match queue.next_retry_at() {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = queue.changed.notified() => {}
        () = next_retry => {}
        Some(ended) = lanes.join_next() => ended.context("a lane of a writer has panicked")?,
    }
    Ok(())
}

async fn run_batch(handler: &CommandHandler, queue: &WriterQueue, batch: Vec<QueuedCommand>) {
    record_start(&batch);
    let accounts = batch.iter().map(|queued| queued.command.account_id());
    let accounts = accounts.collect();
    let retried = batch_run::run_shared(handler, batch).await;
    let mut state = queue.state();
    state
        .accounts
        .finish_batch(accounts, retried, Instant::now());
}

/// Records the size of a batch that starts, and the waits of its commands.
fn record_start(batch: &[QueuedCommand]) {
    let size = batch.iter().map(|queued| queued.command.size()).sum();
    histogram!(APPEND_BATCH_SIZE).record(count(size));
    let wait = histogram!(COMMAND_WAIT_SECONDS);
    for queued in batch {
        wait.record(queued.queued_at.elapsed());
    }
}

fn count(length: usize) -> f64 {
    f64::from(u32::try_from(length).unwrap_or(u32::MAX))
}
