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

/// All keys in flight. No larger than the queues together: each entry is a queued command.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<ScopedKey, Joined>>>);

/// Whether a create is the first of its key.
pub(super) enum Ticket {
    /// It is: this is answered when it is done.
    First(Pending),
    /// It is not: this tells what becomes of the first.
    Joined(Joined),
}

/// The first create of a key, as those see it who come later.
#[derive(Debug, Clone)]
pub(super) struct Joined {
    /// Of its body.
    pub(super) fingerprint: Fingerprint,
    /// What becomes of it.
    pub(super) answer: Answer,
}

impl InFlight {
    /// Enters the create's key, unless it is there already.
    pub(super) fn enter(&self, create: &KeyedCreate) -> Ticket {
        let key = (create.account_id, create.key);
        match self.running().entry(key) {
            Entry::Occupied(entry) => Ticket::Joined(entry.get().clone()),
            Entry::Vacant(entry) => {
                let mut pending = Pending::unkeyed();
                entry.insert(Joined {
                    fingerprint: create.fingerprint,
                    answer: pending.subscribe(),
                });
                pending.key = Some(KeyInFlight {
                    key,
                    in_flight: self.clone(),
                });
                Ticket::First(pending)
            }
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<ScopedKey, Joined>> {
        // No code panics while it holds the lock, and each change is a single call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command that owes an answer to all who wait. Dropped without one, its key is free again and
/// the waiting are told that the outcome is unknown.
#[derive(Debug)]
pub(super) struct Pending {
    sender: watch::Sender<Option<Reply>>,
    key: Option<KeyInFlight>,
}

impl Pending {
    /// Of a command that nobody can join.
    pub(super) fn unkeyed() -> Self {
        let (sender, _) = watch::channel(None);
        Self { sender, key: None }
    }

    /// For someone who waits for the answer.
    pub(super) fn subscribe(&self) -> Answer {
        Answer(self.sender.subscribe())
    }

    pub(super) fn answer(self, reply: Reply) {
        self.sender.send_replace(Some(reply));
    }
}

/// An entry of [`InFlight`], there as long as this lives.
#[derive(Debug)]
struct KeyInFlight {
    key: ScopedKey,
    in_flight: InFlight,
}

impl Drop for KeyInFlight {
    fn drop(&mut self) {
        self.in_flight.running().remove(&self.key);
    }
}

/// What becomes of a command.
#[derive(Debug, Clone)]
pub(super) struct Answer(watch::Receiver<Option<Reply>>);

impl Answer {
    /// Waits for it; `None` when it is not known in time.
    pub(super) async fn reply(mut self, until: Instant) -> Option<Reply> {
        let answered = tokio::time::timeout_at(until, self.0.wait_for(Option::is_some));
        match answered.await {
            Ok(Ok(reply)) => reply.clone(),
            Ok(Err(_dropped)) => Some(Reply::Refused(Refusal::OutcomeUnknown)),
            Err(_elapsed) => None,
        }
    }
}
