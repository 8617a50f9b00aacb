//! Supervised background tasks of a process.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
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
    task::{AbortHandle, Id, JoinError, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::metrics::TASK_FAILURES_TOTAL;

/// Longest time for accepted work to finish after the shutdown began.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(20);

/// Longest additional time for tasks that must outlive the flush of accepted work. A stop takes both times
/// at most, less than the grace period of Kubernetes and Docker in `deploy/`.
const FLUSHED_TIME_MAX: Duration = Duration::from_secs(3);

/// Longest time for housekeeping to end after the shutdown began, so that the later stages of a stop have
/// theirs.
const HOUSEKEEPING_END_TIME_MAX: Duration = Duration::from_secs(8);

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
/// that process what was stored, such as the aggregation of clicks.
pub struct Tasks {
    set: JoinSet<anyhow::Result<()>>,
    shutdown: CancellationToken,
    /// Tasks that must outlive all tasks of `set`.
    until_drained: JoinSet<anyhow::Result<()>>,
    /// Cancelled when all tasks of `set` have ended.
    drained: CancellationToken,
    /// Tasks that must outlive all tasks of `set` and of `until_drained`.
    until_flushed: JoinSet<anyhow::Result<()>>,
    /// Cancelled when all tasks of `set` and of `until_drained` have ended.
    flushed: CancellationToken,
    /// Names of the tasks that run.
    names: HashMap<Id, &'static str>,
    stop_times: StopTimes,
}

/// Longest times of the stages of a stop.
#[derive(Debug, Clone, Copy)]
struct StopTimes {
    /// From the shutdown until housekeeping that does not end is aborted.
    housekeeping: Duration,
    /// From the shutdown until the process is flushed.
    drain: Duration,
    /// From then on.
    after_flush: Duration,
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
            names: HashMap::new(),
            stop_times: StopTimes {
                housekeeping: HOUSEKEEPING_END_TIME_MAX,
                drain: DRAIN_TIME_MAX,
                after_flush: FLUSHED_TIME_MAX,
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
        let task = self.set.spawn(task);
        self.register(name, &task);
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
    /// If the task fails, panics or ends before the shutdown, `start` makes it anew after a backoff. A
    /// task that does not end within 8 s of the shutdown is aborted.
    pub fn spawn_housekeeping<F>(
        &mut self,
        name: &'static str,
        start: impl Fn(CancellationToken) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let time_max = self.stop_times.housekeeping;
        let run = run_housekeeping(name, start, self.shutdown(), time_max);
        let task = self.set.spawn(run);
        self.register(name, &task);
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
        let run = run_housekeeping(name, start, self.drained(), DRAIN_TIME_MAX);
        let task = self.until_drained.spawn(run);
        self.register(name, &task);
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
        let run = run_housekeeping(name, start, self.flushed(), DRAIN_TIME_MAX);
        let task = self.until_flushed.spawn(run);
        self.register(name, &task);
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
        let task = self.until_drained.spawn(task);
        self.register(name, &task);
    }

    fn register(&mut self, name: &'static str, task: &AbortHandle) {
        self.names.insert(task.id(), name);
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
                Some(ended) = self.set.join_next_with_id() => ended,
                Some(ended) = self.until_drained.join_next_with_id() => ended,
                Some(ended) = self.until_flushed.join_next_with_id() => ended,
                time_max = &mut stop_is_overdue, if some_run => {
                    return Err(failure.unwrap_or_else(|| self.overdue(time_max)));
                }
                else => return failure.map_or(Ok(()), Err),
            };
            let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
            let name = self.names.remove(&id).unwrap_or_default();
            let error = match ended {
                Ok((_, Ok(()))) if self.shutdown.is_cancelled() => continue,
                Ok((_, Ok(()))) => anyhow::anyhow!("task `{name}` ended by itself"),
                Ok((_, Err(error))) => error.context(format!("task `{name}` failed")),
                Err(error) => anyhow::Error::new(error).context(format!(
                    "task `{name}` panicked; the message of the panic is above"
                )),
            };
            self.shutdown.cancel();
            failure.get_or_insert(error);
        }
    }

    /// Returns the error of a stop that takes too long. The error names the tasks that run.
    fn overdue(&self, time_max: Duration) -> anyhow::Error {
        let mut names: Vec<String> = self
            .names
            .values()
            .map(|name| format!("`{name}`"))
            .collect();
        names.sort_unstable();
        let names = names.join(", ");
        anyhow::anyhow!("tasks did not end within {time_max:?}: {names}")
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

/// Runs housekeeping until the token is cancelled, and starts the task again after each failure. A task that
/// does not end within `end_time_max` is aborted.
async fn run_housekeeping<F>(
    name: &'static str,
    start: impl Fn(CancellationToken) -> F + Send + Sync + 'static,
    end: CancellationToken,
    end_time_max: Duration,
) -> anyhow::Result<()>
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
        let is_overdue = async {
            end.cancelled().await;
            sleep(end_time_max).await;
        };
        let ended = tokio::select! {
            ended = run.join_next() => ended,
            () = is_overdue => {
                tracing::warn!("task `{name}` did not end within {end_time_max:?}, and is aborted");
                return Ok(());
            }
        };
        let error = match ended {
            _ if end.is_cancelled() => return Ok(()),
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
        sleep(self.drain).await;
        if !flushed.is_cancelled() {
            return self.drain;
        }
        sleep(self.after_flush).await;
        self.drain + self.after_flush
    }
}
