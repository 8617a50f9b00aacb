//! The way of a command to its batch: bounded queues, one writer each, and the keys in flight.
//!
//! An account belongs to one writer, by hash. While a writer's batch commits, the next one fills.

mod in_flight;
mod waiting;
mod writer;

use std::{
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    sync::Arc,
    time::{Duration, Instant},
};

use linkledger_core::{
    batch::{CommandRejection, KeyedCreate, LinkChange, LinkCommand, SettledCreate, SettledLink},
    lifecycle::Tasks,
    metrics::COMMANDS_EXPIRED_TOTAL,
};
use metrics::counter;
use tokio::sync::mpsc;

use crate::command_handler::CommandHandler;
use in_flight::{InFlight, Pending, Ticket};

/// Commands that may wait for each writer; one more is answered `overloaded`.
const QUEUE_LENGTH_MAX: usize = 4_096;
/// A command that has not run by then is dropped, in seconds.
const WAITING_TIME_MAX: Duration = Duration::from_secs(4);
/// How long a request waits for its answer, in seconds. After that it may still have its effect.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(15);
/// How long a duplicate waits for the first one, in seconds (contract §4).
const JOIN_TIME_MAX: Duration = Duration::from_secs(1);

/// What becomes of a command, as far as its caller is concerned.
#[derive(Debug, Clone)]
pub enum Reply {
    /// The create had its effect.
    Created(Arc<SettledCreate>),
    /// The create had its effect before.
    Replayed(Arc<SettledCreate>),
    /// The link is as it was asked for.
    Changed(Arc<SettledLink>),
    /// The command has no effect, or perhaps none.
    Refused(Refusal),
}

/// Why a command has no effect.
#[derive(Debug, Clone)]
pub enum Refusal {
    /// It was decided so.
    Rejected(CommandRejection),
    /// It has not run: too many others, or its account was held elsewhere for too long.
    Overloaded,
    /// It has not run: the database does not answer.
    StorageUnavailable,
    /// It may have had its effect.
    OutcomeUnknown,
    /// A command with this key is still running.
    KeyInUse,
    /// It has not run, through a defect.
    Failed,
}

/// A command that waits for its batch.
#[derive(Debug)]
pub struct Queued {
    pub(crate) command: LinkCommand,
    pub(crate) deadline: Instant,
    pending: Pending,
}

impl Queued {
    /// Tells all who wait for it.
    pub(crate) fn answer(self, reply: Reply) {
        self.pending.answer(reply);
    }
}

/// A command that has not run and is to be tried again.
#[derive(Debug)]
pub(crate) struct GivenBack {
    pub(crate) command: Queued,
    /// Its account is held by another process.
    pub(crate) is_held: bool,
}

/// Where handlers put commands.
#[derive(Clone)]
pub struct CommandQueue {
    writers: Arc<[mpsc::Sender<Queued>]>,
    in_flight: InFlight,
}

impl CommandQueue {
    /// Starts the writers. They end when the queue is dropped and what it holds is answered.
    pub fn start(handler: CommandHandler, writers: usize, tasks: &mut Tasks) -> Self {
        counter!(COMMANDS_EXPIRED_TOTAL).increment(0);
        let handler = Arc::new(handler);
        let senders = (0..writers.max(1)).map(|number| {
            let (sender, receiver) = mpsc::channel(QUEUE_LENGTH_MAX);
            tasks.spawn(
                "writer",
                writer::run(number, Arc::clone(&handler), receiver, tasks.shutdown()),
            );
            sender
        });
        Self {
            writers: senders.collect(),
            in_flight: InFlight::default(),
        }
    }

    /// Queues the create, or joins the one with its key that is there already, and waits for what
    /// becomes of it.
    pub async fn submit_create(&self, create: KeyedCreate) -> Reply {
        let join_until = tokio::time::Instant::now() + JOIN_TIME_MAX;
        loop {
            let joined = match self.in_flight.enter(&create) {
                Ticket::First(pending) => {
                    return self.submit(LinkCommand::Create(create), pending).await;
                }
                Ticket::Joined(joined) => joined,
            };
            let is_same_request = joined.fingerprint == create.fingerprint;
            let Some(reply) = joined.answer.reply(join_until).await else {
                return Reply::Refused(Refusal::KeyInUse);
            };
            match (reply, is_same_request) {
                (Reply::Created(settled), true) => return Reply::Replayed(settled),
                (Reply::Created(_) | Reply::Replayed(_), false) => {
                    return Reply::Refused(Refusal::Rejected(CommandRejection::KeyReused));
                }
                // One decision serves both: it was taken while both were waiting.
                (reply, true) => return reply,
                // The key is as unused as before; this request is decided on its own.
                (_, false) => {}
            }
        }
    }

    /// Queues the change and waits for what becomes of it.
    pub async fn submit_change(&self, change: LinkChange) -> Reply {
        self.submit(LinkCommand::Change(change), Pending::unkeyed())
            .await
    }

    async fn submit(&self, command: LinkCommand, pending: Pending) -> Reply {
        let answer = pending.subscribe();
        if let Err(refusal) = self.enqueue(command, pending) {
            return Reply::Refused(refusal);
        }
        let until = tokio::time::Instant::now() + ANSWER_TIME_MAX;
        let reply = answer.reply(until).await;
        reply.unwrap_or(Reply::Refused(Refusal::OutcomeUnknown))
    }

    fn enqueue(&self, command: LinkCommand, pending: Pending) -> Result<(), Refusal> {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let hash = hasher.hash_one(command.account_id()) >> 32;
        let hash = usize::try_from(hash).expect("32 bits fit");
        let writer = &self.writers[hash % self.writers.len()];
        let queued = Queued {
            command,
            deadline: Instant::now() + WAITING_TIME_MAX,
            pending,
        };
        writer.try_send(queued).map_err(|refused| {
            let (refusal, queued) = match refused {
                mpsc::error::TrySendError::Full(queued) => (Refusal::Overloaded, queued),
                mpsc::error::TrySendError::Closed(queued) => (Refusal::StorageUnavailable, queued),
            };
            queued.answer(Reply::Refused(refusal.clone()));
            refusal
        })
    }
}
