//! One load at a time for each slug: the others wait for its end.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

/// Loads that are under way, by slug. No more than there are requests.
#[derive(Debug, Default)]
pub(crate) struct Flights(Mutex<HashMap<String, CancellationToken>>);

/// What a request does.
#[derive(Debug)]
pub(crate) enum Turn<'a> {
    /// It loads, and holds on to this meanwhile.
    Go(Flight<'a>),
    /// Another one loads: this is cancelled when that has ended, in whatever way.
    Wait(CancellationToken),
}

/// A load that is under way. It ends with this value, so also when its request is given up.
#[derive(Debug)]
pub(crate) struct Flight<'a> {
    flights: &'a Flights,
    slug_folded: String,
}

impl Flights {
    /// Begins a load, or finds the one that is under way.
    pub(crate) fn join(&self, slug_folded: &str) -> Turn<'_> {
        match self.lock().entry(slug_folded.to_owned()) {
            Entry::Occupied(flight) => Turn::Wait(flight.get().clone()),
            Entry::Vacant(place) => {
                place.insert(CancellationToken::new());
                Turn::Go(Flight {
                    flights: self,
                    slug_folded: slug_folded.to_owned(),
                })
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let landed = self.flights.lock().remove(&self.slug_folded);
        landed.expect("only this removes it").cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_goes_and_the_others_wait_until_it_ends() {
        let flights = Flights::default();
        let Turn::Go(first) = flights.join("slug") else {
            panic!("nobody was there before");
        };
        let waiting: Vec<_> = (0..3)
            .map(|_| match flights.join("slug") {
                Turn::Wait(landed) => landed,
                Turn::Go(_) => panic!("two at once"),
            })
            .collect();
        assert!(matches!(flights.join("other"), Turn::Go(_)));
        assert!(waiting.iter().all(|landed| !landed.is_cancelled()));
        drop(first);
        assert!(waiting.iter().all(CancellationToken::is_cancelled));
        assert!(matches!(flights.join("slug"), Turn::Go(_)));
    }
}
