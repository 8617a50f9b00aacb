//! The keys that are queued or running in this process: a duplicate joins the first.

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

use super::{Refusal, Reply};

type ScopedKey = (AccountId, IdempotencyKey);
type Running = HashMap<ScopedKey, Joined>;

/// All keys in flight. No larger than the queues together: each entry is a queued command.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<Running>>);

/// Whether a command is the first of its key.
pub(super) enum Ticket {
    /// It is: this is answered when it is done.
    First(Pending),
    /// It is not: this tells what becomes of the first.
    Joined(Joined),
}

impl InFlight {
    /// Enters the command's key, unless it is there already.
    pub(super) fn enter(&self, create: &KeyedCreate) -> Ticket {
        let key = (create.account_id, create.key);
        match self.running().entry(key) {
            Entry::Occupied(entry) => Ticket::Joined(entry.get().clone()),
            Entry::Vacant(entry) => {
                let (sender, receiver) = watch::channel(None);
                entry.insert(Joined {
                    fingerprint: create.fingerprint,
                    receiver,
                });
                Ticket::First(Pending {
                    fingerprint: create.fingerprint,
                    key,
                    sender,
                    in_flight: self.clone(),
                })
            }
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        // No code panics while it holds the lock, and each change is a single call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first command of a key: owes an answer to all who wait. Dropped without one, its key is
/// free again and the waiting are told that the outcome is unknown.
#[derive(Debug)]
pub(super) struct Pending {
    fingerprint: Fingerprint,
    key: ScopedKey,
    sender: watch::Sender<Option<Reply>>,
    in_flight: InFlight,
}

impl Pending {
    /// Someone who waits for the answer.
    pub(super) fn subscribe(&self) -> Joined {
        Joined {
            fingerprint: self.fingerprint,
            receiver: self.sender.subscribe(),
        }
    }

    pub(super) fn answer(self, reply: Reply) {
        self.sender.send_replace(Some(reply));
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.in_flight.running().remove(&self.key);
    }
}

/// Someone who waits for the answer to the first command of a key.
#[derive(Debug, Clone)]
pub(super) struct Joined {
    fingerprint: Fingerprint,
    receiver: watch::Receiver<Option<Reply>>,
}

impl Joined {
    /// Of the first command's body.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// What becomes of the first; `None` when that is not known in time.
    pub(super) async fn reply(mut self, until: Instant) -> Option<Reply> {
        let answered = tokio::time::timeout_at(until, self.receiver.wait_for(Option::is_some));
        match answered.await {
            Ok(Ok(reply)) => reply.clone(),
            Ok(Err(_dropped)) => Some(Reply::Refused(Refusal::OutcomeUnknown)),
            Err(_elapsed) => None,
        }
    }
}
