//! Reads for many requests in one statement: requests that arrive while a statement runs share the next statement.
//!
//! A request that comes alone is read at once. Many keys in one statement cost little more than one key does, for the
//! database and for the service.

use std::{future::pending, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration};

use futures::FutureExt as _;
use sqlx::PgPool;
use tokio::{
    sync::{Mutex, MutexGuard, mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::storage::{read_in_time, storage_unavailable, try_read_in_time};
use crate::problem::Problem;
use linkledger_event_store::{errors::is_of_stored_data, time_limit::READ_TIME_MAX};
use linkledger_service::lifecycle::Tasks;

/// Longest time that the next statement waits for the statement before.
const TURN_TIME_MAX: Duration = Duration::from_millis(5);
/// Length of the queue for the next statement; further requests wait until the queue has room.
const WAITING_MAX: usize = 1_024;

/// Key of a read that can share a statement with other reads.
pub trait BatchedRead: Clone + Send + Sync + 'static {
    /// Result of one read.
    type Value: Send + 'static;
    /// Name of the background task.
    const TASK: &'static str;
    /// Maximum number of reads of one statement.
    const REQUESTS_MAX: usize;
    /// Number of readers, each with one statement at a time: one statement that hangs must not block the others.
    const READERS: usize = 4;

    /// Reads the value of each key, in the order of the keys.
    fn read_each(
        pool: &PgPool,
        keys: &[Self],
    ) -> impl Future<Output = sqlx::Result<Vec<Self::Value>>> + Send;
}

/// Reads the values of many concurrent requests in shared statements.
pub struct Dataloader<R: BatchedRead> {
    sender: mpsc::Sender<QueuedRead<R>>,
}

/// Read of one request, in the queue for the next statement.
struct QueuedRead<R: BatchedRead> {
    key: R,
    reply: oneshot::Sender<Result<R::Value, Problem>>,
}

type Receiver<R> = mpsc::Receiver<QueuedRead<R>>;
/// Queue of one kind of reads. The reader that holds the lock takes the next requests.
type Queue<R> = Arc<Mutex<Receiver<R>>>;

impl<R: BatchedRead> Dataloader<R> {
    /// Starts the background tasks.
    pub fn start(pool: &PgPool, tasks: &mut Tasks) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let queue = Arc::new(Mutex::new(receiver));
        for _ in 0..R::READERS {
            let task = run(pool.clone(), Arc::clone(&queue), tasks.drained());
            tasks.spawn_until_drained(R::TASK, task);
        }
        Self { sender }
    }

    /// Reads the value of a key, by a statement that begins after this call.
    ///
    /// # Errors
    /// Returns `storage_unavailable` if the database fails or does not answer in time.
    pub async fn read(&self, key: R) -> Result<R::Value, Problem> {
        let (reply, answer) = oneshot::channel();
        let answer = timeout(READ_TIME_MAX, async {
            self.sender.send(QueuedRead { key, reply }).await.ok()?;
            answer.await.ok()
        });
        // `None`: no reader answered within the timeout, or all readers have ended, as they do after
        // the last request.
        let answer = answer.await.unwrap_or(None);
        answer.unwrap_or_else(|| Err(Problem::storage_unavailable()))
    }
}

async fn run<R: BatchedRead>(
    pool: PgPool,
    queue: Queue<R>,
    drained: CancellationToken,
) -> anyhow::Result<()> {
    let mut requests = Vec::with_capacity(R::REQUESTS_MAX);
    loop {
        let turn = tokio::select! {
            turn = next(&queue, &mut requests) => turn,
            () = drained.cancelled() => return Ok(()),
        };
        // After a full statement the next one starts at once: more requests probably wait already.
        let turn_time = if requests.len() == R::REQUESTS_MAX {
            Duration::ZERO
        } else {
            TURN_TIME_MAX
        };
        let mut answering = pin!(answer(&pool, &mut requests));
        let in_turn = timeout(turn_time, &mut answering).await;
        drop(turn);
        if in_turn.is_err() {
            answering.await;
        }
    }
}

/// Waits for the next requests. No other reader takes requests while the returned lock is held.
async fn next<'q, R: BatchedRead>(
    queue: &'q Queue<R>,
    requests: &mut Vec<QueuedRead<R>>,
) -> MutexGuard<'q, Receiver<R>> {
    let mut turn = queue.lock().await;
    if turn.recv_many(requests, R::REQUESTS_MAX).await == 0 {
        // All senders are gone, so no request can come any more.
        pending::<()>().await;
    }
    turn
}

/// Reads for the requests whose clients are still connected, and answers the requests.
async fn answer<R: BatchedRead>(pool: &PgPool, requests: &mut Vec<QueuedRead<R>>) {
    requests.retain(|request| !request.reply.is_closed());
    let keys: Vec<R> = requests.iter().map(|request| request.key.clone()).collect();
    if keys.is_empty() {
        return;
    }
    match try_read_in_time(|| read_each(pool, &keys)).await {
        Ok(values) => {
            for (request, value) in requests.drain(..).zip(values) {
                // Sending fails if the client has disconnected.
                request.reply.send(Ok(value)).ok();
            }
        }
        // Damaged rows of one account must not fail the reads of other accounts.
        Err(error)
            if keys.len() > 1 && (is_of_stored_data(&error) || is_of_missing_row(&error)) =>
        {
            let open = |request: &QueuedRead<R>| !request.reply.is_closed();
            for request in requests.drain(..).filter(open) {
                let key = std::slice::from_ref(&request.key);
                let values = read_in_time(|| read_each(pool, key)).await;
                let value = values.map(|mut values| values.remove(0));
                request.reply.send(value).ok();
            }
        }
        Err(error) => {
            let problem = storage_unavailable(&error);
            for request in requests.drain(..) {
                request.reply.send(Err(problem.clone())).ok();
            }
        }
    }
}

/// Returns true if a row is missing that each key of its kind has, such as the checkpoint of a shard.
const fn is_of_missing_row(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::RowNotFound)
}

/// Reads the value of each key. A panic, for example about a timestamp beyond the range of Rust, is an error of the
/// data: an essential task must not end because of a row.
async fn read_each<R: BatchedRead>(pool: &PgPool, keys: &[R]) -> sqlx::Result<Vec<R::Value>> {
    let read = AssertUnwindSafe(R::read_each(pool, keys)).catch_unwind();
    let unreadable = |_| Err(sqlx::Error::Decode("reading a row panicked".into()));
    read.await.unwrap_or_else(unreadable)
}
