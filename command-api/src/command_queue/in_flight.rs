//! The idempotency keys of the creates that are queued or running in this process. A create with the key of an earlier create
//! joins the earlier create. The keys of an atomic batch are entered together, or not at all.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use linkledger_core::{
    commands::{CommandOutcome, Created, IdempotencyKey, KeyedCreate, Outcome, Rejection},
    id::AccountId,
    json::Fingerprint,
};
use tokio::{sync::watch, time::Instant};

use super::{Reply, Unavailable};
use crate::command_handler::Decision;

type ScopedKey = (AccountId, IdempotencyKey);

/// Creates in flight by key. The map is bounded by the queues: each entry is a queued command.
#[derive(Debug, Clone, Default)]
pub(super) struct CreatesInFlight(Arc<Mutex<HashMap<ScopedKey, CreateInFlight>>>);

/// Entry of a create under its key.
pub(super) enum KeyEntry {
    /// The create is the first with its key: the caller must answer the pending reply.
    First(PendingReply),
    /// An earlier create with the key is in flight.
    Joined(CreateInFlight),
}

/// First create of a key, for later creates with the same key.
#[derive(Debug, Clone)]
pub(super) struct CreateInFlight {
    /// Fingerprint of the body.
    pub(super) fingerprint: Fingerprint,
    /// Receiver of the reply.
    pub(super) reply: ReplyReceiver,
    /// Index of the create in its batch; `None` if the create is a command of its own.
    index_in_batch: Option<usize>,
}

impl CreateInFlight {
    /// Returns the reply to a create with the same key, from the reply to the first create. Returns
    /// `None` if the reply leaves the outcome of the other create open, which must then be decided on
    /// its own.
    pub(super) fn reply_to_joined(
        &self,
        reply: Reply,
        fingerprint: Fingerprint,
    ) -> Option<Reply<Outcome<Created>>> {
        let is_equal = self.fingerprint == fingerprint;
        let Decision { outcome, credits } = match (self.index_in_batch, reply) {
            (None, Err(unavailable)) if is_equal => return Some(Err(unavailable)),
            (_, reply) => reply.ok()?,
        };
        let outcome = match (self.index_in_batch, outcome) {
            (None, CommandOutcome::Create(outcome)) => outcome,
            (Some(index), CommandOutcome::Batch(outcomes)) => {
                // Another create of the batch may be the reason of a rejection.
                outcomes.ok()?.into_iter().nth(index)?
            }
            _ => return None,
        };
        let outcome = match outcome {
            // One decision serves both creates, because both were waiting for the decision.
            Ok(created) if is_equal => Ok(Created {
                is_replay: true,
                ..created
            }),
            Err(rejection) if is_equal => Err(rejection),
            Ok(_) => Err(Rejection::KeyReused),
            // The first create did not use the key.
            Err(_) => return None,
        };
        Some(Ok(Decision { outcome, credits }))
    }
}

impl CreatesInFlight {
    /// Enters the create under its key, unless an earlier create has the key.
    pub(super) fn enter(&self, create: &KeyedCreate) -> KeyEntry {
        self.enter_all(std::slice::from_ref(create), |_| None)
    }

    /// Enters all creates of an atomic batch under their keys, unless an earlier create has one of the
    /// keys.
    pub(super) fn enter_batch(&self, creates: &[KeyedCreate]) -> KeyEntry {
        self.enter_all(creates, Some)
    }

    fn enter_all(
        &self,
        creates: &[KeyedCreate],
        index_in_batch: impl Fn(usize) -> Option<usize>,
    ) -> KeyEntry {
        let mut running = self.running();
        let scoped_key = |create: &KeyedCreate| (create.account_id, create.key);
        let earlier = creates
            .iter()
            .find_map(|create| running.get(&scoped_key(create)));
        if let Some(earlier) = earlier {
            return KeyEntry::Joined(earlier.clone());
        }
        let mut pending = PendingReply::unkeyed();
        for (index, create) in creates.iter().enumerate() {
            let key = scoped_key(create);
            let entry = CreateInFlight {
                fingerprint: create.fingerprint,
                reply: pending.subscribe(),
                index_in_batch: index_in_batch(index),
            };
            running.insert(key, entry);
            pending.keys.push(KeyInFlight {
                key,
                in_flight: self.clone(),
            });
        }
        KeyEntry::First(pending)
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<ScopedKey, CreateInFlight>> {
        // No code panics while holding the lock, and each change is a single call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reply that a command owes to all waiting requests. Dropping without a reply frees the keys, and
/// answers the waiting requests with an unknown outcome.
#[derive(Debug)]
pub(super) struct PendingReply {
    sender: watch::Sender<Option<Reply>>,
    keys: Vec<KeyInFlight>,
}

impl PendingReply {
    /// Creates the pending reply of a command that no other command can join.
    pub(super) fn unkeyed() -> Self {
        let (sender, _) = watch::channel(None);
        Self {
            sender,
            keys: Vec::new(),
        }
    }

    /// Returns a receiver of the reply.
    pub(super) fn subscribe(&self) -> ReplyReceiver {
        ReplyReceiver(self.sender.subscribe())
    }

    pub(super) fn answer(mut self, reply: Reply) {
        // Freed before the reply, so that a create that must be decided on its own cannot join again.
        self.keys.clear();
        self.sender.send_replace(Some(reply));
    }
}

/// Guard of an entry of [`CreatesInFlight`], which is removed when the guard is dropped.
#[derive(Debug)]
struct KeyInFlight {
    key: ScopedKey,
    in_flight: CreatesInFlight,
}

impl Drop for KeyInFlight {
    fn drop(&mut self) {
        self.in_flight.running().remove(&self.key);
    }
}

/// Receiver of the reply to a command.
#[derive(Debug, Clone)]
pub(super) struct ReplyReceiver(watch::Receiver<Option<Reply>>);

impl ReplyReceiver {
    /// Waits for the reply. Returns `None` on timeout.
    pub(super) async fn receive(mut self, deadline: Instant) -> Option<Reply> {
        let answered = tokio::time::timeout_at(deadline, self.0.wait_for(Option::is_some));
        match answered.await {
            Ok(Ok(reply)) => reply.clone(),
            Ok(Err(_dropped)) => Some(Err(Unavailable::OutcomeUnknown)),
            Err(_elapsed) => None,
        }
    }
}
