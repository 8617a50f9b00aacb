//! Deduplicates concurrent loads: one load for each key, whose result all waiting requests share.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// Loads in progress, by key; at most one for each request.
#[derive(Debug)]
pub(crate) struct SingleFlight<K: Eq + Hash, T>(Mutex<Receivers<K, T>>);

type Receivers<K, T> = HashMap<K, watch::Receiver<Option<T>>>;

/// A load in progress. Dropping it ends the load, also if the request is cancelled.
#[derive(Debug)]
pub(crate) struct LoadInProgress<'a, K: Eq + Hash, T> {
    flights: &'a SingleFlight<K, T>,
    key: K,
    sender: watch::Sender<Option<T>>,
}

impl<K: Eq + Hash, T> Default for SingleFlight<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, T: Clone> SingleFlight<K, T> {
    /// Starts a load, which the caller has to finish, or waits for the load in progress.
    ///
    /// # Errors
    /// Returns the result of the load in progress; `None` if the load was cancelled.
    pub(crate) async fn join(&self, key: K) -> Result<LoadInProgress<'_, K, T>, Option<T>> {
        let mut receiver = match self.lock().entry(key) {
            Entry::Occupied(flight) => flight.get().clone(),
            Entry::Vacant(place) => {
                let (sender, receiver) = watch::channel(None);
                let key = place.key().clone();
                place.insert(receiver);
                return Ok(LoadInProgress {
                    flights: self,
                    key,
                    sender,
                });
            }
        };
        let result = receiver.wait_for(Option::is_some).await;
        Err(result.ok().and_then(|result| result.clone()))
    }
}

impl<K: Eq + Hash, T> SingleFlight<K, T> {
    fn lock(&self) -> MutexGuard<'_, Receivers<K, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, T> LoadInProgress<'_, K, T> {
    /// Ends the load and publishes the result.
    pub(crate) fn finish(self, outcome: T) {
        let sender = self.sender.clone();
        // Removed first: a request that arrives after the end must start another load.
        drop(self);
        sender.send_replace(Some(outcome));
    }
}

impl<K: Eq + Hash, T> Drop for LoadInProgress<'_, K, T> {
    fn drop(&mut self) {
        let removed = self.flights.lock().remove(&self.key);
        debug_assert!(removed.is_some(), "only the flight removes its key");
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn waiting_requests_share_one_result() {
        let flights = SingleFlight::<char, u8>::default();
        let first = flights.join('a').await.unwrap();
        let mut waiting = [(); 3].map(|()| Box::pin(flights.join('a')));
        for request in &mut waiting {
            assert!(request.now_or_never().is_none(), "two loads at once");
        }
        assert!(flights.join('b').await.is_ok());
        first.finish(7);
        for request in waiting {
            assert_eq!(request.await.unwrap_err(), Some(7));
        }
        // A later request needs a load of its own.
        assert!(flights.join('a').await.is_ok());
    }

    #[tokio::test]
    async fn cancelled_load_ends_the_wait() {
        let flights = SingleFlight::<char, u8>::default();
        let first = flights.join('a').await.unwrap();
        let mut waiting = Box::pin(flights.join('a'));
        assert!((&mut waiting).now_or_never().is_none(), "two loads at once");
        drop(first);
        assert_eq!(waiting.await.unwrap_err(), None);
        assert!(flights.join('a').await.is_ok());
    }
}
