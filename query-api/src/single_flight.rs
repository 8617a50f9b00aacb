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

/// Role of a request in a load.
#[derive(Debug)]
pub(crate) enum LoadRole<'a, K: Eq + Hash, T> {
    /// The request loads and publishes the result.
    Load(LoadInProgress<'a, K, T>),
    /// Another request loads.
    Wait(LoadResult<T>),
}

/// A load in progress. Dropping it ends the load, also if the request is cancelled.
#[derive(Debug)]
pub(crate) struct LoadInProgress<'a, K: Eq + Hash, T> {
    flights: &'a SingleFlight<K, T>,
    key: K,
    sender: watch::Sender<Option<T>>,
}

/// Receiver for the result of another request's load.
#[derive(Debug)]
pub(crate) struct LoadResult<T>(watch::Receiver<Option<T>>);

impl<K: Eq + Hash, T> Default for SingleFlight<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, T> SingleFlight<K, T> {
    /// Starts a load, or joins the load in progress.
    pub(crate) fn join(&self, key: K) -> LoadRole<'_, K, T> {
        match self.lock().entry(key) {
            Entry::Occupied(flight) => LoadRole::Wait(LoadResult(flight.get().clone())),
            Entry::Vacant(place) => {
                let (sender, receiver) = watch::channel(None);
                let key = place.key().clone();
                place.insert(receiver);
                LoadRole::Load(LoadInProgress {
                    flights: self,
                    key,
                    sender,
                })
            }
        }
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

impl<T: Clone> LoadResult<T> {
    /// Waits for the result; `None` if the load was cancelled.
    pub(crate) async fn outcome(mut self) -> Option<T> {
        let result = self.0.wait_for(Option::is_some).await.ok()?;
        result.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(flights: &SingleFlight<char, u8>) -> LoadInProgress<'_, char, u8> {
        match flights.join('a') {
            LoadRole::Load(flight) => flight,
            LoadRole::Wait(_) => panic!("another load is in progress"),
        }
    }

    fn wait(flights: &SingleFlight<char, u8>) -> LoadResult<u8> {
        match flights.join('a') {
            LoadRole::Wait(result) => result,
            LoadRole::Load(_) => panic!("two loads at once"),
        }
    }

    #[tokio::test]
    async fn waiting_requests_share_one_result() {
        let flights = SingleFlight::default();
        let first = go(&flights);
        let waiting = [(); 3].map(|()| wait(&flights));
        assert!(matches!(flights.join('b'), LoadRole::Load(_)));
        first.finish(7);
        for result in waiting {
            assert_eq!(result.outcome().await, Some(7));
        }
        // A later request needs a load of its own.
        drop(go(&flights));
    }

    #[tokio::test]
    async fn cancelled_load_ends_the_wait() {
        let flights = SingleFlight::default();
        let first = go(&flights);
        let result = wait(&flights);
        drop(first);
        assert_eq!(result.outcome().await, None);
        drop(go(&flights));
    }
}
