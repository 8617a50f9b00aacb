//! Supervised background tasks of a process.

#[cfg(test)]
mod tests;

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use metrics::counter;
use tokio::{
    runtime::Builder,
    sync::oneshot,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::metrics::TASK_FAILURES_TOTAL;

/// Longest time for accepted work to finish after the shutdown began.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(20);

/// Longest additional time for tasks that must outlive the flush of accepted work. A stop takes both times
/// at most, less than the grace period of Kubernetes and Docker in `deploy/`.
const FLUSHED_TIME_MAX: Duration = Duration::from_secs(3);

/// First delay before housekeeping that has failed is started again.
const RESTART_BACKOFF_MIN: Duration = Duration::from_millis(100);
/// Longest such delay.
const RESTART_BACKOFF_MAX: Duration = Duration::from_mins(1);

/// Supervised background tasks of a process. An essential task that ends before the shutdown, by an
/// error, a panic or by itself, starts the shutdown and makes the process fail; housekeeping never
/// does.
///
/// A stop has three stages. The shutdown ends listeners and everything that takes part in answers. When
/// all of those tasks have ended, the process is drained, and tasks end that store what requests have
/// left, such as the recorder of clicks. When those have ended too, the process is flushed, and tasks end
/// that process what was stored, such as the counting of clicks.
pub struct Tasks {
    set: JoinSet<(&'static str, anyhow::Result<()>)>,
    shutdown: CancellationToken,
    /// Tasks that must outlive all tasks of `set`.
    until_drained: JoinSet<(&'static str, anyhow::Result<()>)>,
    /// Cancelled when all tasks of `set` have ended.
    drained: CancellationToken,
    /// Tasks that must outlive all tasks of `set` and of `until_drained`.
    until_flushed: JoinSet<(&'static str, anyhow::Result<()>)>,
    /// Cancelled when all tasks of `set` and of `until_drained` have ended.
    flushed: CancellationToken,
    stop_times: StopTimes,
}

/// Longest times of the stages of a stop.
#[derive(Debug, Clone, Copy)]
struct StopTimes {
    /// From the shutdown until the process is flushed.
    drain_max: Duration,
    /// From then on.
    flushed_max: Duration,
}

impl Tasks {
    /// Returns an empty set. The tasks must end when `shutdown` is cancelled.
    pub fn new(shutdown: CancellationToken) -> Self {
        Self {
            set: JoinSet::new(),
            shutdown,
            until_drained: JoinSet::new(),
            drained: CancellationToken::new(),
            until_flushed: JoinSet::new(),
            flushed: CancellationToken::new(),
            stop_times: StopTimes {
                drain_max: DRAIN_TIME_MAX,
                flushed_max: FLUSHED_TIME_MAX,
            },
        }
    }

    /// Returns the token that is cancelled when the shutdown begins.
    pub fn shutdown(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Spawns a task without which the process would answer wrongly, or not at all.
    pub fn spawn_essential(
        &mut self,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        self.set.spawn(async move { (name, task.await) });
    }

    /// Spawns an essential task on a thread with a runtime of its own, for a task for which requests
    /// wait, and which waits for the database many times. On the runtime of the requests, each answer
    /// of the database would wait behind them.
    ///
    /// The thread ends with the task; connections that the task has opened cannot be used then.
    pub fn spawn_essential_on_thread(
        &mut self,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        self.spawn_essential(name, run_on_thread(name, task));
    }

    /// Spawns a task whose absence makes no answer wrong: it prunes, seals, reports or fills a cache.
    /// If the task fails, panics or ends before the shutdown, `start` makes it anew after a backoff.
    pub fn spawn_housekeeping<F>(
        &mut self,
        name: &'static str,
        start: impl Fn(CancellationToken) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.set
            .spawn(run_housekeeping(name, start, self.shutdown()));
    }

    /// Spawns housekeeping that must outlive the requests, and ends when the token of
    /// [`Tasks::drained`] is cancelled.
    pub fn spawn_housekeeping_until_drained<F>(
        &mut self,
        name: &'static str,
        start: impl Fn(CancellationToken) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.until_drained
            .spawn(run_housekeeping(name, start, self.drained()));
    }

    /// Spawns housekeeping that must outlive the tasks of [`Tasks::spawn_housekeeping_until_drained`], and
    /// ends when the token of [`Tasks::flushed`] is cancelled.
    pub fn spawn_housekeeping_until_flushed<F>(
        &mut self,
        name: &'static str,
        start: impl Fn(CancellationToken) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.until_flushed
            .spawn(run_housekeeping(name, start, self.flushed()));
    }

    /// Returns the token that is cancelled when the tasks that outlive the requests have ended too:
    /// everything that requests have left is stored.
    pub fn flushed(&self) -> CancellationToken {
        self.flushed.clone()
    }

    /// Returns the token that is cancelled when all other tasks have ended. No request is left then, so
    /// tasks that requests depend on can end.
    pub fn drained(&self) -> CancellationToken {
        self.drained.clone()
    }

    /// Spawns an essential task that must outlive the requests. The task must end when the token of
    /// [`Tasks::drained`] is cancelled.
    pub fn spawn_until_drained(
        &mut self,
        name: &'static str,
        task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
    ) {
        self.until_drained.spawn(async move { (name, task.await) });
    }

    /// Waits until all tasks have ended.
    ///
    /// # Errors
    /// Returns the first failure: an error, a panic, an end before the shutdown, or a timeout of
    /// the shutdown.
    pub async fn join(mut self) -> anyhow::Result<()> {
        let mut failure = None;
        let shutdown = self.shutdown();
        // One deadline for all tasks: the timeout must not restart when a task ends.
        let mut stop_is_overdue = pin!(self.stop_times.are_over(shutdown, self.flushed()));
        loop {
            self.advance_stage();
            let some_run = !(self.is_flushed() && self.until_flushed.is_empty());
            let ended = tokio::select! {
                Some(ended) = self.set.join_next() => ended,
                Some(ended) = self.until_drained.join_next() => ended,
                Some(ended) = self.until_flushed.join_next() => ended,
                time_max = &mut stop_is_overdue, if some_run => {
                    return Err(failure.unwrap_or_else(|| {
                        anyhow::anyhow!("tasks did not end within {time_max:?}")
                    }));
                }
                else => return failure.map_or(Ok(()), Err),
            };
            let error = match ended {
                Ok((_, Ok(()))) if self.shutdown.is_cancelled() => continue,
                Ok((name, Ok(()))) => anyhow::anyhow!("task `{name}` ended by itself"),
                Ok((name, Err(error))) => error.context(format!("task `{name}` failed")),
                Err(error) => anyhow::Error::new(error)
                    .context("a task panicked; the message of the panic is above"),
            };
            self.shutdown.cancel();
            failure.get_or_insert(error);
        }
    }

    /// Begins the stages of a stop whose earlier tasks have ended.
    fn advance_stage(&self) {
        if self.set.is_empty() {
            self.drained.cancel();
        }
        if self.is_flushed() {
            self.flushed.cancel();
        }
    }

    fn is_flushed(&self) -> bool {
        self.set.is_empty() && self.until_drained.is_empty()
    }
}

/// Runs the task on a thread of its own. The task is dropped if the returned future is dropped.
async fn run_on_thread(
    name: &'static str,
    task: impl Future<Output = anyhow::Result<()>> + Send + 'static,
) -> anyhow::Result<()> {
    let (mut sender, result) = oneshot::channel();
    let run = move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        let result = match runtime {
            Ok(runtime) => runtime.block_on(async {
                tokio::select! {
                    result = task => Some(result),
                    () = sender.closed() => None,
                }
            }),
            Err(error) => Some(Err(error.into())),
        };
        if let Some(result) = result {
            // Sending fails if nobody waits for the task any more.
            sender.send(result).ok();
        }
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.context("cannot start a thread")?;
    let panicked = || anyhow::anyhow!("the task panicked; the message of the panic is above");
    result.await.map_err(|_| panicked())?
}

/// Runs housekeeping until the token is cancelled, and starts the task again after each failure.
async fn run_housekeeping<F>(
    name: &'static str,
    start: impl Fn(CancellationToken) -> F + Send + Sync + 'static,
    end: CancellationToken,
) -> (&'static str, anyhow::Result<()>)
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let failures = counter!(TASK_FAILURES_TOTAL, "task" => name);
    failures.increment(0);
    let start = Arc::new(start);
    let mut backoff = RESTART_BACKOFF_MIN;
    loop {
        let begun = Instant::now();
        // A task of its own, so that a panic ends only this run.
        let mut run = JoinSet::new();
        let (start, until) = (Arc::clone(&start), end.clone());
        run.spawn(async move { start(until).await });
        let error = match run.join_next().await {
            _ if end.is_cancelled() => return (name, Ok(())),
            None | Some(Ok(Ok(()))) => "it ended by itself".to_owned(),
            Some(Ok(Err(error))) => format!("{error:#}"),
            Some(Err(error)) => error.to_string(),
        };
        if begun.elapsed() > RESTART_BACKOFF_MAX {
            backoff = RESTART_BACKOFF_MIN;
        }
        failures.increment(1);
        tracing::error!(
            error,
            ?backoff,
            "task `{name}` failed; starting it again after a backoff"
        );
        timeout(backoff, end.cancelled()).await.ok();
        backoff = (backoff * 2).min(RESTART_BACKOFF_MAX);
    }
}

impl StopTimes {
    /// Waits until a stop has taken too long, and returns the time that the stop may take.
    async fn are_over(self, shutdown: CancellationToken, flushed: CancellationToken) -> Duration {
        shutdown.cancelled().await;
        sleep(self.drain_max).await;
        if !flushed.is_cancelled() {
            return self.drain_max;
        }
        sleep(self.flushed_max).await;
        self.drain_max + self.flushed_max
    }
}
