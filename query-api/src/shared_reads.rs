//! Links by id, and pages of links, for many requests in one statement: those that come while it
//! runs share the next.
//!
//! A request that comes alone is read for at once. A statement costs the database and this process
//! ten times what one more link of it does, and about what one more page of it does.

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use linkledger_core::{
    event_store::time_limit::{ANSWER_TIME_MAX, within},
    lifecycle::Tasks,
    problem::Problem,
};
use sqlx::PgPool;
use tokio::{
    sync::{Mutex, MutexGuard, mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::read_model::{
    Seen, available,
    links::{self, Link, LinkKey, LinkRange},
    unavailable,
};

/// Most statements that run at once: one that hangs must not hold up the others.
const READERS: usize = 4;
/// For how long a statement is waited for before the next begins.
const TURN_TIME_MAX: Duration = Duration::from_millis(5);
/// Requests that wait for the next statement; further ones wait to get in line.
const WAITING_MAX: usize = 1_024;

/// One of the requests that can share a statement.
pub(crate) trait SharedRead: Copy + Send + Sync + 'static {
    /// What one request gets.
    type Found: Send + 'static;
    /// Its name among the background tasks.
    const TASK: &'static str;
    /// Most requests of one statement.
    const REQUESTS_MAX: usize;

    /// For each of these what it asks for, all from one snapshot.
    fn read_each(
        pool: &PgPool,
        wanted: &[Self],
    ) -> impl Future<Output = sqlx::Result<Vec<Seen<Self::Found>>>> + Send;
}

impl SharedRead for LinkKey {
    type Found = Option<Link>;
    const TASK: &'static str = "link reader";
    const REQUESTS_MAX: usize = 64;

    async fn read_each(pool: &PgPool, wanted: &[Self]) -> sqlx::Result<Vec<Seen<Self::Found>>> {
        links::find_each(pool, wanted).await
    }
}

impl SharedRead for LinkRange {
    type Found = Vec<Link>;
    const TASK: &'static str = "list reader";
    /// Of 10 KB each as a rule, and of 220 KB at most.
    const REQUESTS_MAX: usize = 16;

    async fn read_each(pool: &PgPool, wanted: &[Self]) -> sqlx::Result<Vec<Seen<Self::Found>>> {
        links::list_each(pool, wanted).await
    }
}

/// Reads for all requests together.
pub(crate) struct SharedReads<R: SharedRead> {
    queue: mpsc::Sender<Waiting<R>>,
}

/// One request.
struct Waiting<R: SharedRead> {
    wanted: R,
    answer: oneshot::Sender<Result<Seen<R::Found>, Problem>>,
}

type Receiver<R> = mpsc::Receiver<Waiting<R>>;
/// Whoever has it may read.
type Queue<R> = Arc<Mutex<Receiver<R>>>;

impl<R: SharedRead> SharedReads<R> {
    /// Starts the background tasks.
    pub(crate) fn start(pool: &PgPool, tasks: &mut Tasks) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let queue = Arc::new(Mutex::new(receiver));
        for _ in 0..READERS {
            let task = run(pool.clone(), Arc::clone(&queue), tasks.drained());
            tasks.spawn_until_drained(R::TASK, task);
        }
        Self { queue: sender }
    }

    /// What is wanted, from a snapshot that is taken after this call.
    ///
    /// # Errors
    /// `storage_unavailable`.
    pub(crate) async fn read(&self, wanted: R) -> Result<Seen<R::Found>, Problem> {
        let (sender, answer) = oneshot::channel();
        let waiting = Waiting {
            wanted,
            answer: sender,
        };
        let found = timeout(ANSWER_TIME_MAX, async {
            self.queue.send(waiting).await.ok()?;
            answer.await.ok()
        });
        // None after the end of the last reader, which is after that of the last request; and none
        // in time while statements hang.
        let found = found.await.unwrap_or(None);
        found.unwrap_or_else(|| Err(Problem::storage_unavailable()))
    }
}

async fn run<R: SharedRead>(
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
        // A full one would be no fuller for waiting.
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

/// Waits for the next requests. Nobody else takes any until the turn is over.
async fn next<'q, R: SharedRead>(
    queue: &'q Queue<R>,
    requests: &mut Vec<Waiting<R>>,
) -> MutexGuard<'q, Receiver<R>> {
    let mut turn = queue.lock().await;
    if turn.recv_many(requests, R::REQUESTS_MAX).await == 0 {
        // Nobody is left who could ask.
        pending::<()>().await;
    }
    turn
}

/// Reads for those whose clients are still there.
async fn answer<R: SharedRead>(pool: &PgPool, requests: &mut Vec<Waiting<R>>) {
    requests.retain(|it| !it.answer.is_closed());
    let wanted: Vec<R> = requests.iter().map(|it| it.wanted).collect();
    if wanted.is_empty() {
        return;
    }
    match within(ANSWER_TIME_MAX, R::read_each(pool, &wanted)).await {
        Ok(found) => {
            for (request, found) in requests.drain(..).zip(found) {
                // Its client may have gone.
                request.answer.send(Ok(found)).ok();
            }
        }
        Err(error) if wanted.len() > 1 && may_be_of_one(&error) => {
            for request in requests.drain(..).filter(|it| !it.answer.is_closed()) {
                let found = available(R::read_each(pool, &[request.wanted])).await;
                let found = found.map(|mut found| found.remove(0));
                request.answer.send(found).ok();
            }
        }
        Err(error) => {
            let problem = unavailable(&error);
            for request in requests.drain(..) {
                request.answer.send(Err(problem.clone())).ok();
            }
        }
    }
}

/// Whether the database has answered, and others may be answered better: what is damaged for one
/// account must not be the others' outage.
const fn may_be_of_one(error: &sqlx::Error) -> bool {
    use sqlx::Error::{ColumnDecode, Database, Decode, RowNotFound};
    matches!(
        error,
        Database(_) | RowNotFound | ColumnDecode { .. } | Decode(_)
    )
}
