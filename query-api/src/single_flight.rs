//! One load at a time for each slug: the others wait for what it finds.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

type UnderWay<T> = HashMap<String, watch::Receiver<Option<T>>>;

/// Loads that are under way, by slug. No more than there are requests.
#[derive(Debug)]
pub(crate) struct Flights<T>(Mutex<UnderWay<T>>);

/// What a request does.
#[derive(Debug)]
pub(crate) enum Turn<'a, T> {
    /// It loads, and tells the others.
    Go(Flight<'a, T>),
    /// Another one loads.
    Wait(Landing<T>),
}

/// A load that is under way. It ends with this value, so also when its request is given up.
#[derive(Debug)]
pub(crate) struct Flight<'a, T> {
    // Goes first: whoever comes after the end must not find this load.
    place: Place<'a, T>,
    sender: watch::Sender<Option<T>>,
}

/// What a load comes to, for somebody who waits.
#[derive(Debug)]
pub(crate) struct Landing<T>(watch::Receiver<Option<T>>);

#[derive(Debug)]
struct Place<'a, T> {
    flights: &'a Flights<T>,
    slug_folded: String,
}

impl<T> Default for Flights<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Flights<T> {
    /// Begins a load, or finds the one that is under way.
    pub(crate) fn join(&self, slug_folded: &str) -> Turn<'_, T> {
        match self.lock().entry(slug_folded.to_owned()) {
            Entry::Occupied(flight) => Turn::Wait(Landing(flight.get().clone())),
            Entry::Vacant(place) => {
                let (sender, receiver) = watch::channel(None);
                place.insert(receiver);
                Turn::Go(Flight {
                    place: Place {
                        flights: self,
                        slug_folded: slug_folded.to_owned(),
                    },
                    sender,
                })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Flight<'_, T> {
    /// Ends it, and tells those who wait.
    pub(crate) fn land(self, found: T) {
        drop(self.place);
        self.sender.send_replace(Some(found));
    }
}

impl<T: Clone> Landing<T> {
    /// Waits for the end; `None` when the load was given up.
    pub(crate) async fn found(mut self) -> Option<T> {
        let landed = self.0.wait_for(Option::is_some).await.ok()?;
        landed.clone()
    }
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        let landed = self.flights.lock().remove(&self.slug_folded);
        debug_assert!(landed.is_some(), "only this removes it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go<'a>(flights: &'a Flights<u8>, slug: &str) -> Flight<'a, u8> {
        match flights.join(slug) {
            Turn::Go(flight) => flight,
            Turn::Wait(_) => panic!("somebody was there before"),
        }
    }

    fn wait(flights: &Flights<u8>, slug: &str) -> Landing<u8> {
        match flights.join(slug) {
            Turn::Wait(landing) => landing,
            Turn::Go(_) => panic!("two at once"),
        }
    }

    #[tokio::test]
    async fn one_goes_and_the_others_are_told_what_it_found() {
        let flights = Flights::default();
        let first = go(&flights, "slug");
        let waiting = [(); 3].map(|()| wait(&flights, "slug"));
        let other = go(&flights, "other");
        first.land(7);
        for landing in waiting {
            assert_eq!(landing.found().await, Some(7));
        }
        // Whoever comes now needs a load of its own.
        drop(go(&flights, "slug"));
        drop(other);
    }

    #[tokio::test]
    async fn who_waits_for_a_load_that_is_given_up_is_told_so() {
        let flights = Flights::default();
        let first = go(&flights, "slug");
        let landing = wait(&flights, "slug");
        drop(first);
        assert_eq!(landing.found().await, None);
        drop(go(&flights, "slug"));
    }
}
