//! The path of a command to its commit group: a bounded queue for each writer, and the idempotency keys in flight.
//!
//! Each account belongs to one writer, by hash. While a commit group commits, the writer's queue collects the next one.
//! An account with many commands, or that another process locks, gets a dedicated transaction beside the commit groups
//! of the other accounts.

mod account_queues;
mod batch_admission;
mod group_run;
mod in_flight;
mod writer;

use std::{
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    sync::Arc,
    time::{Duration, Instant},
};

use linkledger_core::commands::{
    ChangeResult, CommandOutcome, Created, KeyedCreate, LinkChange, LinkCommand, Outcome,
};

use crate::command_handler::{CommandHandler, Decision};
use in_flight::{CreateInFlight, CreatesInFlight, KeyEntry, PendingReply, ReplyReceiver};
pub use writer::Writer;
use writer::{DEDICATED_MAX, WriterQueue};

/// Number of sessions with the database for each writer: for its commit groups and for its dedicated transactions.
pub const SESSIONS_PER_WRITER: u32 = 1 + DEDICATED_MAX;

/// Deadline of a command in the queue. A command that has not run by then is answered
/// `overloaded`, or `storage_unavailable` if the database failed.
const WAITING_TIME_MAX: Duration = Duration::from_secs(4);
/// Timeout of a request that waits for its reply. The command may still have its effect
/// after the timeout.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(15);
/// Timeout of a create that waits for the first create with the same key.
const JOIN_TIME_MAX: Duration = Duration::from_secs(1);

/// Reply to a command: the decision, or the reason why there is none.
pub type Reply<T = CommandOutcome> = Result<Decision<T>, Unavailable>;

/// Reason why a command was not decided, or why the decision is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unavailable {
    /// The command has not run before its deadline: the queue was full, or another process locked
    /// the account for too long.
    Overloaded,
    /// The command has not run: the database fails.
    StorageUnavailable,
    /// The command may have had its effect.
    OutcomeUnknown,
    /// An earlier create with the same key is still running.
    KeyInUse,
    /// The command has not run, because of a defect.
    Failed,
}

/// A command that waits for its commit group.
#[derive(Debug)]
pub struct QueuedCommand {
    pub(crate) command: LinkCommand,
    queued_at: Instant,
    pending_reply: PendingReply,
}

impl QueuedCommand {
    fn new(command: LinkCommand, pending_reply: PendingReply) -> Self {
        Self {
            command,
            queued_at: Instant::now(),
            pending_reply,
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.queued_at + WAITING_TIME_MAX
    }

    /// Replies to all requests that wait for the command.
    pub(crate) fn answer(self, reply: Reply) {
        self.pending_reply.answer(reply);
    }
}

/// Queues of commands, one for each writer.
#[derive(Clone)]
pub struct CommandQueue {
    writers: Arc<WriterQueues>,
    creates_in_flight: CreatesInFlight,
}

/// Queues of all writers. Dropping them lets the writers end.
struct WriterQueues(Vec<Arc<WriterQueue>>);

impl Drop for WriterQueues {
    fn drop(&mut self) {
        for queue in &self.0 {
            queue.close();
        }
    }
}

impl CommandQueue {
    /// Returns the queue, and a writer for each handler, which the caller must run. The writers end
    /// after the queue is dropped and all its commands are answered.
    pub fn new(handlers: Vec<CommandHandler>) -> (Self, Vec<Writer>) {
        let writers = handlers.into_iter().enumerate();
        let writers: Vec<_> = writers
            .map(|(number, handler)| Writer::new(number, handler))
            .collect();
        let queues = writers.iter().map(Writer::queue).collect();
        let queue = Self {
            writers: Arc::new(WriterQueues(queues)),
            creates_in_flight: CreatesInFlight::default(),
        };
        (queue, writers)
    }

    /// Queues the create and waits for the reply. A create joins an earlier create with the same key
    /// that is still in flight.
    ///
    /// # Errors
    /// Returns why there is no decision now.
    pub async fn submit_create(&self, create: KeyedCreate) -> Reply<Outcome<Created>> {
        let join_until = tokio::time::Instant::now() + JOIN_TIME_MAX;
        loop {
            let joined = match self.creates_in_flight.enter(&create) {
                KeyEntry::First(pending_reply) => {
                    let command = LinkCommand::Create(create);
                    return of_create(self.submit(command, pending_reply).await);
                }
                KeyEntry::Joined(joined) => joined,
            };
            if let Some(reply) = join(joined, &create, join_until).await {
                return reply;
            }
        }
    }

    /// Queues the change and waits for the reply.
    ///
    /// # Errors
    /// Returns why there is no decision now.
    pub async fn submit_change(&self, change: LinkChange) -> Reply<Outcome<Arc<ChangeResult>>> {
        let command = LinkCommand::Change(change);
        let reply = self.submit(command, PendingReply::unkeyed()).await;
        let Decision { outcome, credits } = reply?;
        let CommandOutcome::Change(outcome) = outcome else {
            unreachable!("a change is decided as a change");
        };
        Ok(Decision { outcome, credits })
    }

    async fn submit(&self, command: LinkCommand, pending_reply: PendingReply) -> Reply {
        let reply = pending_reply.subscribe();
        let queued = QueuedCommand::new(command, pending_reply);
        // A command without room is answered.
        self.enqueue(vec![queued]).ok();
        reply_in_time(reply, tokio::time::Instant::now() + ANSWER_TIME_MAX).await
    }

    /// Queues the commands of an account with the writer of the account: all of them, or none if there
    /// is no room. Then all are answered with the returned reason.
    fn enqueue(&self, commands: Vec<QueuedCommand>) -> Result<(), Unavailable> {
        let Some(first) = commands.first() else {
            return Ok(());
        };
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let hash = hasher.hash_one(first.command.account_id()) >> 32;
        let hash = usize::try_from(hash).expect("32 bits fit");
        let writers = &self.writers.0;
        writers[hash % writers.len()].enqueue(commands)
    }
}

/// Waits for the reply to the first create with the key. Returns `None` if `create` must be decided on
/// its own.
async fn join(
    joined: CreateInFlight,
    create: &KeyedCreate,
    join_until: tokio::time::Instant,
) -> Option<Reply<Outcome<Created>>> {
    let Some(reply) = joined.reply.clone().receive(join_until).await else {
        return Some(Err(Unavailable::KeyInUse));
    };
    joined.reply_to_joined(reply, create.fingerprint)
}

/// Returns the reply to a create, by the kind of its outcome.
fn of_create(reply: Reply) -> Reply<Outcome<Created>> {
    let Decision { outcome, credits } = reply?;
    let CommandOutcome::Create(outcome) = outcome else {
        unreachable!("a create is decided as a create");
    };
    Ok(Decision { outcome, credits })
}

/// Waits for the reply to a queued command until the deadline.
async fn reply_in_time(reply: ReplyReceiver, deadline: tokio::time::Instant) -> Reply {
    let reply = reply.receive(deadline).await;
    reply.unwrap_or(Err(Unavailable::OutcomeUnknown))
}
