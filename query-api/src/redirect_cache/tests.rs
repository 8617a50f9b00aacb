//! In any order of loads, changes and polls of the changes, an answer is never stale by more than the maximum, nor older than an
//! earlier answer.

use std::{collections::HashMap, time::Duration};

use linkledger_core::id::{AccountId, LinkId};
use proptest::prelude::*;
use tokio::time::Instant;
use uuid::Uuid;

use super::*;
use crate::read_model::redirects::RedirectTarget;

const SLUGS: usize = 3;
const STALENESS_MAX: Duration = Duration::from_millis(500);

/// Returns the owner of a slug: two accounts own the slugs in turn.
fn account_of(slug: usize) -> AccountId {
    AccountId::from_uuid(Uuid::from_u128(slug as u128 % 2))
}

fn redirect(slug: usize, value: u32) -> Redirect {
    Redirect {
        account_id: account_of(slug),
        target: RedirectTarget::Destination {
            link_id: LinkId::from_uuid(Uuid::nil()),
            url: value.to_string().into(),
            expiry: None,
        },
    }
}

fn value_of(redirect: &Redirect) -> u32 {
    match &redirect.target {
        RedirectTarget::Destination { url, .. } => url.parse().unwrap(),
        RedirectTarget::Gone => panic!("nothing is gone here"),
    }
}

#[derive(Debug, Clone)]
enum Step {
    ChangeSlug(usize),
    ChangeAccount(usize),
    /// A request arrives.
    Request(usize),
    /// A load reads the database.
    Read(usize),
    /// A load ends, and its request is answered.
    End(usize),
    /// The follower reads the changes.
    PollChanges,
    /// The follower applies the changes that it read.
    ApplyChanges,
    /// The follower has missed changes and clears the cache.
    ApplyGap,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..SLUGS).prop_map(Step::ChangeSlug),
        1 => (0..2_usize).prop_map(Step::ChangeAccount),
        6 => (0..SLUGS).prop_map(Step::Request),
        4 => (0..4_usize).prop_map(Step::Read),
        4 => (0..4_usize).prop_map(Step::End),
        3 => Just(Step::PollChanges),
        3 => Just(Step::ApplyChanges),
        1 => Just(Step::ApplyGap),
        3 => prop_oneof![0..50_u64, 150..300_u64, 400..550_u64].prop_map(Step::Pass),
    ]
}

struct Load {
    slug: usize,
    /// Ticket of the load; `None` if the load bypasses the cache.
    ticket: Option<LoadTicket>,
    read: Option<u32>,
    /// Requests that arrived during the load.
    waiting: Vec<Waiter>,
}

/// A request that waits for the load of another request.
#[derive(Clone, Copy)]
struct Waiter {
    /// Newest answered value when the request arrived.
    answered: u32,
    /// Value in the database when the request arrived.
    value: u32,
    /// True if the request has waited for an earlier load in vain.
    has_waited: bool,
}

struct Poll {
    begun_at: Instant,
    changes_read: usize,
    values_read: [u32; SLUGS],
}

/// A database, a follower and requests around a cache.
struct World {
    cache: RedirectCache,
    staleness_max: Duration,
    now: Instant,
    /// Values of the slugs in the database, and their history.
    values: [u32; SLUGS],
    history: Vec<(Instant, [u32; SLUGS])>,
    changes: Vec<RedirectChange>,
    applied: usize,
    poll: Option<Poll>,
    loads: Vec<Load>,
    /// Newest answered value of each slug.
    answered: [u32; SLUGS],
    /// Oldest values that the cache may still answer with after the last poll.
    applied_values: [u32; SLUGS],
}

impl World {
    fn new(staleness_max: Duration) -> Self {
        let now = Instant::now();
        Self {
            cache: RedirectCache::new(1, staleness_max),
            staleness_max,
            now,
            values: [0; SLUGS],
            history: vec![(now, [0; SLUGS])],
            changes: Vec::new(),
            applied: 0,
            poll: None,
            loads: Vec::new(),
            answered: [0; SLUGS],
            applied_values: [0; SLUGS],
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::ChangeSlug(slug) => self.change(&[*slug], RedirectChange::Slug(slug.to_string())),
            Step::ChangeAccount(first) => {
                let slugs: Vec<usize> = (*first..SLUGS).step_by(2).collect();
                self.change(&slugs, RedirectChange::Account(account_of(*first)));
            }
            Step::Request(slug) => self.request(*slug),
            Step::Read(load) => {
                if let Some(load) = self.loads.get_mut(*load) {
                    load.read = Some(self.values[load.slug]);
                }
            }
            Step::End(load) if *load < self.loads.len() => self.end(*load),
            Step::End(_) => {}
            Step::PollChanges => {
                self.poll = Some(Poll {
                    begun_at: self.now,
                    changes_read: self.changes.len(),
                    values_read: self.values,
                });
            }
            Step::ApplyChanges => self.apply(false),
            Step::ApplyGap => self.apply(true),
            Step::Pass(milliseconds) => self.now += Duration::from_millis(*milliseconds),
        }
    }

    fn change(&mut self, slugs: &[usize], change: RedirectChange) {
        for slug in slugs {
            self.values[*slug] += 1;
        }
        self.history.push((self.now, self.values));
        self.changes.push(change);
    }

    fn request(&mut self, slug: usize) {
        let ticket = match self.cache.look_up(&slug.to_string(), self.now) {
            CacheLookup::Hit(redirect) => return self.answer_from_cache(slug, value_of(&redirect)),
            CacheLookup::Miss => Some(self.cache.ticket()),
            CacheLookup::Bypassed => None,
        };
        if ticket.is_some() {
            let waiter = Waiter {
                answered: self.answered[slug],
                value: self.values[slug],
                has_waited: false,
            };
            self.join(slug, waiter);
        } else {
            self.begin(slug, None);
        }
    }

    /// Joins the load of the slug, or begins a load.
    fn join(&mut self, slug: usize, waiter: Waiter) {
        let is_flying = |load: &&mut Load| load.slug == slug && load.ticket.is_some();
        match self.loads.iter_mut().find(is_flying) {
            Some(flight) => flight.waiting.push(waiter),
            None => self.begin(slug, Some(self.cache.ticket())),
        }
    }

    fn begin(&mut self, slug: usize, ticket: Option<LoadTicket>) {
        self.loads.push(Load {
            slug,
            ticket,
            read: None,
            waiting: Vec::new(),
        });
    }

    fn answer_from_cache(&mut self, slug: usize, value: u32) {
        self.assert_fresh(slug, value);
        self.answer(slug, value);
    }

    fn assert_fresh(&self, slug: usize, value: u32) {
        let bound = self.now - self.staleness_max;
        let newest = self.history.iter().rev().find(|(at, _)| *at <= bound);
        if let Some((_, values)) = newest {
            assert!(value >= values[slug], "older than the bound");
        }
        assert!(
            value >= self.applied_values[slug],
            "an invalidated value came back"
        );
    }

    fn answer(&mut self, slug: usize, value: u32) {
        assert!(value >= self.answered[slug], "older than an answer before");
        self.answered[slug] = value;
    }

    fn end(&mut self, index: usize) {
        let load = self.loads.swap_remove(index);
        let slug = load.slug;
        if let Some(value) = load.read {
            match load.ticket {
                Some(ticket) => {
                    let redirect = redirect(slug, value);
                    self.cache.store(ticket, &slug.to_string(), redirect);
                }
                None => self.cache.invalidate_slug(&slug.to_string()),
            }
            self.record_answer(slug, value);
        }
        for waiter in load.waiting {
            self.end_wait(waiter, slug, load.ticket.zip(load.read));
        }
    }

    /// Ends the wait for a load, with its value or without.
    fn end_wait(&mut self, waiter: Waiter, slug: usize, landed: Option<(LoadTicket, u32)>) {
        match landed {
            Some((_, value)) if waiter.has_waited => {
                assert!(value >= waiter.value, "older than the request");
                self.record_answer(slug, value);
            }
            Some((ticket, value)) if self.cache.is_current(ticket, self.now) => {
                self.assert_fresh(slug, value);
                assert!(value >= waiter.answered, "older than an answer before it");
                self.record_answer(slug, value);
            }
            Some(_) | None => {
                let waiter = Waiter {
                    has_waited: true,
                    ..waiter
                };
                self.join(slug, waiter);
            }
        }
    }

    /// Records an answer. Two requests may be answered in another order than they have read.
    fn record_answer(&mut self, slug: usize, value: u32) {
        self.answered[slug] = self.answered[slug].max(value);
    }

    fn apply(&mut self, of_gap: bool) {
        let Some(poll) = self.poll.take() else { return };
        let changes = self.changes[self.applied..poll.changes_read].to_vec();
        if of_gap {
            self.cache.invalidate(&Invalidation::Everything);
        } else if !changes.is_empty() {
            self.cache.invalidate(&Invalidation::Changes(changes));
        }
        self.cache.mark_fresh(poll.begun_at);
        self.applied = poll.changes_read;
        self.applied_values = poll.values_read;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn answers_never_exceed_staleness_bound(
        steps in proptest::collection::vec(step(), 1..80),
        staleness_max in prop_oneof![Just(STALENESS_MAX), Just(20 * STALENESS_MAX)],
    ) {
        let mut world = World::new(staleness_max);
        for step in &steps {
            world.take(step);
        }
    }
}

#[test]
fn bypassed_answer_is_never_followed_by_older() {
    let mut world = World::new(STALENESS_MAX);
    for step in [
        Step::PollChanges,
        Step::ApplyChanges,
        Step::Request(0),
        Step::Read(0),
        Step::End(0),
        Step::Pass(400),
        Step::PollChanges,
        Step::Pass(150),
        Step::ChangeSlug(0),
        // A bypassing load reads a change that the poll has missed.
        Step::Request(0),
        Step::Read(0),
        Step::End(0),
        Step::ApplyChanges,
        Step::Request(0),
    ] {
        world.take(&step);
    }
    assert_eq!(world.answered[0], 1);
}

/// Returns a cache that is fresh.
fn fresh_cache() -> (RedirectCache, Instant) {
    let cache = RedirectCache::new(1, STALENESS_MAX);
    let now = Instant::now();
    cache.mark_fresh(now);
    (cache, now)
}

/// Returns the values of the slugs that are hits.
fn hits(cache: &RedirectCache, now: Instant) -> HashMap<usize, u32> {
    let hit = |slug: usize| match cache.look_up(&slug.to_string(), now) {
        CacheLookup::Hit(redirect) => Some((slug, value_of(&redirect))),
        CacheLookup::Miss | CacheLookup::Bypassed => None,
    };
    (0..SLUGS).filter_map(hit).collect()
}

#[test]
fn cache_without_recent_poll_is_bypassed() {
    let cache = RedirectCache::new(1, STALENESS_MAX);
    let now = Instant::now();
    assert!(matches!(cache.look_up("0", now), CacheLookup::Bypassed));
    cache.mark_fresh(now);
    cache.store(cache.ticket(), "0", redirect(0, 5));
    let last = now + STALENESS_MAX - Duration::from_millis(1);
    assert_eq!(hits(&cache, last), HashMap::from([(0, 5)]));
    assert!(matches!(
        cache.look_up("0", now + STALENESS_MAX),
        CacheLookup::Bypassed
    ));
}

#[test]
fn load_begun_before_invalidation_is_not_stored() {
    let (cache, now) = fresh_cache();
    let before = cache.ticket();
    cache.invalidate(&Invalidation::Changes(vec![RedirectChange::Slug(
        "3".to_owned(),
    )]));
    cache.store(before, "0", redirect(0, 1));
    assert!(hits(&cache, now).is_empty());
    // A stale load also removes the older entry of another load.
    cache.store(cache.ticket(), "0", redirect(0, 0));
    cache.store(before, "0", redirect(0, 1));
    assert!(hits(&cache, now).is_empty());
    cache.store(cache.ticket(), "0", redirect(0, 2));
    assert_eq!(hits(&cache, now), HashMap::from([(0, 2)]));
}

#[test]
fn invalidation_removes_slug_account_or_everything() {
    let (cache, now) = fresh_cache();
    let fill = || {
        for slug in 0..SLUGS {
            let ticket = cache.ticket();
            cache.store(ticket, &slug.to_string(), redirect(slug, 1));
        }
    };
    for (invalidation, left) in [
        (
            Invalidation::Changes(vec![RedirectChange::Slug("2".to_owned())]),
            &[0, 1][..],
        ),
        (
            Invalidation::Changes(vec![RedirectChange::Account(account_of(1))]),
            &[0, 2],
        ),
        (Invalidation::Everything, &[]),
    ] {
        fill();
        cache.invalidate(&invalidation);
        let mut slugs: Vec<usize> = hits(&cache, now).into_keys().collect();
        slugs.sort_unstable();
        assert_eq!(slugs, left, "{invalidation:?}");
    }
}
