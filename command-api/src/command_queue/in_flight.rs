//! The idempotency keys of the creates that are queued or running in this process. A create with the key of an earlier create
//! joins the earlier create.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, PoisonError},
};

use linkledger_core::{
    batch::{IdempotencyKey, KeyedCreate},
    id::AccountId,
    json::Fingerprint,
};
use tokio::{sync::watch, time::Instant};

use crate::command_reply::{CommandRefusal, CommandReply};

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
}

impl CreatesInFlight {
    /// Enters the create under its key, unless an earlier create has the key.
    pub(super) fn enter(&self, create: &KeyedCreate) -> KeyEntry {
        let key = (create.account_id, create.key);
        match self.running().entry(key) {
            Entry::Occupied(entry) => KeyEntry::Joined(entry.get().clone()),
            Entry::Vacant(entry) => {
                let mut pending = PendingReply::unkeyed();
                entry.insert(CreateInFlight {
                    fingerprint: create.fingerprint,
                    reply: pending.subscribe(),
                });
                pending.key = Some(KeyInFlight {
                    key,
                    in_flight: self.clone(),
                });
                KeyEntry::First(pending)
            }
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<ScopedKey, CreateInFlight>> {
        // No code panics while holding the lock, and each change is a single call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reply that a command owes to all waiting requests. Dropping without a reply frees the key, and
/// answers the waiting requests with an unknown outcome.
#[derive(Debug)]
pub(super) struct PendingReply {
    sender: watch::Sender<Option<CommandReply>>,
    key: Option<KeyInFlight>,
}

impl PendingReply {
    /// Creates the pending reply of a command that no other command can join.
    pub(super) fn unkeyed() -> Self {
        let (sender, _) = watch::channel(None);
        Self { sender, key: None }
    }

    /// Returns a receiver of the reply.
    pub(super) fn subscribe(&self) -> ReplyReceiver {
        ReplyReceiver(self.sender.subscribe())
    }

    pub(super) fn answer(self, reply: CommandReply) {
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
pub(super) struct ReplyReceiver(watch::Receiver<Option<CommandReply>>);

impl ReplyReceiver {
    /// Waits for the reply. Returns `None` on timeout.
    pub(super) async fn receive(mut self, deadline: Instant) -> Option<CommandReply> {
        let answered = tokio::time::timeout_at(deadline, self.0.wait_for(Option::is_some));
        match answered.await {
            Ok(Ok(reply)) => reply.clone(),
            Ok(Err(_dropped)) => Some(CommandReply::Refused(CommandRefusal::OutcomeUnknown)),
            Err(_elapsed) => None,
        }
    }
}
