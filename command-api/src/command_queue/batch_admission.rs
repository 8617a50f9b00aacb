//! Creates of one request: queued together, or refused together if there is no room for all.

use futures::future::join_all;
use linkledger_core::commands::{
    BatchCreate, BatchMode, CommandOutcome, Created, KeyedCreate, LinkCommand, Outcome,
};

use super::{
    ANSWER_TIME_MAX, CommandQueue, JOIN_TIME_MAX, QueuedCommand, Reply, Unavailable,
    in_flight::{KeyEntry, PendingReply, ReplyReceiver},
    join, of_create, reply_in_time,
};
use crate::command_handler::Decision;

impl CommandQueue {
    /// Queues the creates of one account as commands of their own, in their order, and waits for all
    /// replies. No two creates have the same key. A create joins an earlier create with the same key
    /// that is still in flight.
    ///
    /// # Errors
    /// Returns an error if there is no room for all creates; then none of them runs.
    pub async fn submit_creates(
        &self,
        creates: Vec<KeyedCreate>,
    ) -> Result<Vec<Reply<Outcome<Created>>>, Unavailable> {
        let now = tokio::time::Instant::now();
        let (join_until, deadline) = (now + JOIN_TIME_MAX, now + ANSWER_TIME_MAX);
        let mut queued: Vec<QueuedCommand> = Vec::with_capacity(creates.len());
        let mut waiting: Vec<(usize, ReplyReceiver)> = Vec::with_capacity(creates.len());
        let mut joining = Vec::new();
        let count = creates.len();
        for (index, create) in creates.into_iter().enumerate() {
            match self.creates_in_flight.enter(&create) {
                KeyEntry::First(pending_reply) => {
                    waiting.push((index, pending_reply.subscribe()));
                    queued.push(QueuedCommand::new(
                        LinkCommand::Create(create),
                        pending_reply,
                    ));
                }
                KeyEntry::Joined(joined) => joining.push((index, joined, create)),
            }
        }
        self.enqueue(queued)?;
        let joined = joining.into_iter().map(async |(index, joined, create)| {
            let reply = match join(joined, &create, join_until).await {
                Some(reply) => reply,
                None => self.submit_create(create).await,
            };
            (index, reply)
        });
        let waited = async {
            let mut replies = Vec::with_capacity(waiting.len());
            for (index, reply) in waiting {
                replies.push((index, of_create(reply_in_time(reply, deadline).await)));
            }
            replies
        };
        let (mut replies, joined) = tokio::join!(waited, join_all(joined));
        replies.extend(joined);
        replies.sort_unstable_by_key(|(index, _)| *index);
        debug_assert_eq!(replies.len(), count, "each create has a reply");
        Ok(replies.into_iter().map(|(_, reply)| reply).collect())
    }

    /// Queues the creates as one command, and waits for the reply. An atomic batch waits for earlier
    /// creates with one of its keys that are still in flight. A dry run uses no key.
    ///
    /// # Errors
    /// Returns why there is no decision now.
    pub async fn submit_batch(&self, batch: BatchCreate) -> Reply<Outcome<Vec<Outcome<Created>>>> {
        let join_until = tokio::time::Instant::now() + JOIN_TIME_MAX;
        let pending_reply = match batch.mode {
            BatchMode::DryRun => PendingReply::unkeyed(),
            BatchMode::Atomic => loop {
                match self.creates_in_flight.enter_batch(&batch.creates) {
                    KeyEntry::First(pending_reply) => break pending_reply,
                    KeyEntry::Joined(earlier) => {
                        if earlier.reply.receive(join_until).await.is_none() {
                            return Err(Unavailable::KeyInUse);
                        }
                    }
                }
            },
        };
        let reply = self.submit(LinkCommand::Batch(batch), pending_reply).await;
        let Decision { outcome, credits } = reply?;
        let CommandOutcome::Batch(outcome) = outcome else {
            unreachable!("a batch is decided as a batch");
        };
        Ok(Decision { outcome, credits })
    }
}
