//! One load at a time for each key: whoever comes meanwhile waits for what it comes to.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// Loads that are under way, by key. No more than there are requests.
#[derive(Debug)]
pub struct Flights<K: Eq + Hash, T>(Mutex<UnderWay<K, T>>);

type UnderWay<K, T> = HashMap<K, watch::Receiver<Option<T>>>;

/// What a request does.
#[derive(Debug)]
pub enum Turn<'a, K: Eq + Hash, T> {
    /// It loads, and tells the others.
    Go(Flight<'a, K, T>),
    /// Another one loads.
    Wait(Landing<T>),
}

/// A load that is under way. It ends with this value, so also when its request is given up.
#[derive(Debug)]
pub struct Flight<'a, K: Eq + Hash, T> {
    flights: &'a Flights<K, T>,
    key: K,
    sender: watch::Sender<Option<T>>,
}

/// What a load comes to, for somebody who waits.
#[derive(Debug)]
pub struct Landing<T>(watch::Receiver<Option<T>>);

impl<K: Eq + Hash, T> Default for Flights<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, T> Flights<K, T> {
    /// Begins a load, or finds the one that is under way.
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
    /// Ends it, and tells those who wait.
    pub fn land(self, outcome: T) {
        let sender = self.sender.clone();
        // First: whoever comes after the end must not find this load.
        drop(self);
        sender.send_replace(Some(outcome));
    }
}

impl<K: Eq + Hash, T> Drop for Flight<'_, K, T> {
    fn drop(&mut self) {
        let landed = self.flights.lock().remove(&self.key);
        debug_assert!(landed.is_some(), "only this removes it");
    }
}

impl<T: Clone> Landing<T> {
    /// Waits for the end; `None` when the load was given up.
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
    async fn one_goes_and_the_others_are_told_what_it_came_to() {
        let flights = Flights::default();
        let first = go(&flights);
        let waiting = [(); 3].map(|()| wait(&flights));
        assert!(matches!(flights.join('b'), Turn::Go(_)));
        first.land(7);
        for landing in waiting {
            assert_eq!(landing.outcome().await, Some(7));
        }
        // Whoever comes now needs a load of its own.
        drop(go(&flights));
    }

    #[tokio::test]
    async fn whoever_waits_for_a_load_that_is_given_up_is_told_so() {
        let flights = Flights::default();
        let first = go(&flights);
        let landing = wait(&flights);
        drop(first);
        assert_eq!(landing.outcome().await, None);
        drop(go(&flights));
    }
}
