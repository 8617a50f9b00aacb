//! Deduplicates concurrent loads: one load for each key, whose result all waiting requests share.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// Loads in progress, by key; at most one for each request.
#[derive(Debug)]
pub struct Flights<K: Eq + Hash, T>(Mutex<UnderWay<K, T>>);

type UnderWay<K, T> = HashMap<K, watch::Receiver<Option<T>>>;

/// Role of a request in a load.
#[derive(Debug)]
pub enum Turn<'a, K: Eq + Hash, T> {
    /// The request loads and publishes the result.
    Go(Flight<'a, K, T>),
    /// Another request loads.
    Wait(Landing<T>),
}

/// A load in progress. Dropping it ends the load, also if the request is cancelled.
#[derive(Debug)]
pub struct Flight<'a, K: Eq + Hash, T> {
    flights: &'a Flights<K, T>,
    key: K,
    sender: watch::Sender<Option<T>>,
}

/// Receiver for the result of another request's load.
#[derive(Debug)]
pub struct Landing<T>(watch::Receiver<Option<T>>);

impl<K: Eq + Hash, T> Default for Flights<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, T> Flights<K, T> {
    /// Starts a load, or joins the load in progress.
    pub fn join(&self, key: K) -> Turn<'_, K, T> {
        match self.lock().entry(key) {
            Entry::Occupied(flight) => Turn::Wait(Landing(flight.get().clone())),
            Entry::Vacant(place) => {
                let (sender, receiver) = watch::channel(None);
                let key = place.key().clone();
                place.insert(receiver);
                Turn::Go(Flight {
                    flights: self,
                    key,
                    sender,
                })
            }
        }
    }
}

impl<K: Eq + Hash, T> Flights<K, T> {
    fn lock(&self) -> MutexGuard<'_, UnderWay<K, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, T> Flight<'_, K, T> {
    /// Ends the load and publishes the result.
    pub fn land(self, outcome: T) {
        let sender = self.sender.clone();
        // Removed first: a request that arrives after the end must start a load of its own.
        drop(self);
        sender.send_replace(Some(outcome));
    }
}

impl<K: Eq + Hash, T> Drop for Flight<'_, K, T> {
    fn drop(&mut self) {
        let landed = self.flights.lock().remove(&self.key);
        debug_assert!(landed.is_some(), "only the flight removes its key");
    }
}

impl<T: Clone> Landing<T> {
    /// Waits for the result; `None` if the load was cancelled.
    pub async fn outcome(mut self) -> Option<T> {
        let landed = self.0.wait_for(Option::is_some).await.ok()?;
        landed.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(flights: &Flights<char, u8>) -> Flight<'_, char, u8> {
        match flights.join('a') {
            Turn::Go(flight) => flight,
            Turn::Wait(_) => panic!("somebody was there before"),
        }
    }

    fn wait(flights: &Flights<char, u8>) -> Landing<u8> {
        match flights.join('a') {
            Turn::Wait(landing) => landing,
            Turn::Go(_) => panic!("two at once"),
        }
    }

    #[tokio::test]
    async fn waiting_requests_share_one_result() {
        let flights = Flights::default();
        let first = go(&flights);
        let waiting = [(); 3].map(|()| wait(&flights));
        assert!(matches!(flights.join('b'), Turn::Go(_)));
        first.land(7);
        for landing in waiting {
            assert_eq!(landing.outcome().await, Some(7));
        }
        // A later request needs a load of its own.
        drop(go(&flights));
    }

    #[tokio::test]
    async fn cancelled_load_ends_the_wait() {
        let flights = Flights::default();
        let first = go(&flights);
        let landing = wait(&flights);
        drop(first);
        assert_eq!(landing.outcome().await, None);
        drop(go(&flights));
    }
}
