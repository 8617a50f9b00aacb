//! A writer: takes commit groups from its queue and runs one after the other. An account that would delay the
//! others gets a dedicated transaction, a task with a session of its own.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use anyhow::Context as _;
use linkledger_core::id::AccountId;
use linkledger_service::metrics::{COMMAND_QUEUE_DEPTH, COMMAND_WAIT_SECONDS};
use metrics::{Gauge, gauge, histogram};
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    QueuedCommand, Unavailable,
    account_queues::{AccountQueues, Assignment},
    group_run,
};
use crate::command_handler::CommandHandler;

/// Maximum number of dedicated transactions of a writer. Each needs a session with the database.
pub(super) const DEDICATED_MAX: u32 = 4;

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

    fn take(&self, free_dedicated: usize) -> Assignment {
        let mut state = self.state();
        self.depth.set(count(state.accounts.len()));
        state.accounts.take(Instant::now(), free_dedicated)
    }

    fn next_retry_at(&self) -> Option<Instant> {
        self.state().accounts.next_retry_at()
    }

    fn is_finished(&self) -> bool {
        let state = self.state();
        state.is_closed && state.accounts.len() == 0
    }

    /// Runs attempts of the account until the account has few commands left.
    async fn run_dedicated(self: Arc<Self>, handler: Arc<CommandHandler>, account_id: AccountId) {
        loop {
            let take = || {
                let group = self.state().accounts.take_of(account_id, Instant::now());
                record_waits(&group);
                group
            };
            let attempt = group_run::run_dedicated(&handler, account_id, take).await;
            let mut state = self.state();
            let keeps_dedicated =
                state
                    .accounts
                    .finish_dedicated(account_id, attempt, Instant::now());
            drop(state);
            if !keeps_dedicated {
                self.changed.notify_one();
                return;
            }
        }
    }
}

/// Takes the commands of its queue in commit groups, and answers them.
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
    /// Returns an error if a dedicated transaction panics, or if the queue is closed before the shutdown.
    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let (queue, handler) = (&self.queue, &self.handler);
        let dedicated_max = usize::try_from(DEDICATED_MAX)?;
        let mut dedicated = JoinSet::new();
        loop {
            while let Some(ended) = dedicated.try_join_next() {
                ended.context("a dedicated transaction of a writer has panicked")?;
            }
            let assignment = queue.take(dedicated_max - dedicated.len());
            if assignment.is_empty() {
                if queue.is_finished() {
                    anyhow::ensure!(
                        shutdown.is_cancelled(),
                        "all senders of the command queue are gone"
                    );
                    return Ok(());
                }
                wait(queue, &mut dedicated).await?;
                continue;
            }
            for account_id in assignment.dedicated {
                dedicated.spawn(Arc::clone(queue).run_dedicated(Arc::clone(handler), account_id));
            }
            if !assignment.group.is_empty() {
                run_group(handler, queue, assignment.group).await;
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
async fn wait(queue: &WriterQueue, dedicated: &mut JoinSet<()>) -> anyhow::Result<()> {
    let next_retry = async {
        match queue.next_retry_at() {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = queue.changed.notified() => {}
        () = next_retry => {}
        Some(ended) = dedicated.join_next() => ended.context("a dedicated transaction of a writer has panicked")?,
    }
    Ok(())
}

async fn run_group(handler: &CommandHandler, queue: &WriterQueue, group: Vec<QueuedCommand>) {
    record_waits(&group);
    let accounts = group.iter().map(|queued| queued.command.account_id());
    let accounts = accounts.collect();
    let retried = group_run::run_shared(handler, group).await;
    let mut state = queue.state();
    state
        .accounts
        .finish_group(accounts, retried, Instant::now());
}

/// Records the waits of the commands of a commit group that starts.
fn record_waits(group: &[QueuedCommand]) {
    let wait = histogram!(COMMAND_WAIT_SECONDS);
    for queued in group {
        wait.record(queued.queued_at.elapsed());
    }
}

fn count(length: usize) -> f64 {
    f64::from(u32::try_from(length).unwrap_or(u32::MAX))
}
