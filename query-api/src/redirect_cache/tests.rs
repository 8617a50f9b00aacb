//! Whatever the order in which loads, changes and looks at changes overtake each other, an answer
//! is never older than half a second, nor than an answer before it.

use std::{collections::HashMap, time::Duration};

use linkledger_core::id::AccountId;
use proptest::prelude::*;
use tokio::time::Instant;
use uuid::Uuid;

use super::*;
use crate::read_model::redirects::RedirectTarget;

const SLUGS: usize = 3;

/// Two accounts take turns.
fn account_of(slug: usize) -> AccountId {
    AccountId::from_uuid(Uuid::from_u128(slug as u128 % 2))
}

fn redirect(slug: usize, value: u32) -> Redirect {
    Redirect {
        account_id: account_of(slug),
        target: RedirectTarget::Destination(value.to_string().into()),
    }
}

fn value_of(redirect: &Redirect) -> u32 {
    match &redirect.target {
        RedirectTarget::Destination(value) => value.parse().unwrap(),
        RedirectTarget::Gone => panic!("nothing is gone here"),
    }
}

#[derive(Debug, Clone)]
enum Step {
    ChangeSlug(usize),
    ChangeAccount(usize),
    /// A request comes in.
    Ask(usize),
    /// A load reads the database.
    Read(usize),
    /// A load ends, and its request is answered.
    End(usize),
    /// The follower reads the database.
    LookAtChanges,
    /// It has forgotten what it read.
    HearChanges,
    /// A look that lost so much that everything goes.
    HearOfGap,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..SLUGS).prop_map(Step::ChangeSlug),
        1 => (0..2_usize).prop_map(Step::ChangeAccount),
        6 => (0..SLUGS).prop_map(Step::Ask),
        4 => (0..4_usize).prop_map(Step::Read),
        4 => (0..4_usize).prop_map(Step::End),
        3 => Just(Step::LookAtChanges),
        3 => Just(Step::HearChanges),
        1 => Just(Step::HearOfGap),
        3 => prop_oneof![0..50_u64, 150..300_u64, 400..550_u64].prop_map(Step::Pass),
    ]
}

struct Load {
    slug: usize,
    /// `None`: past the cache.
    ticket: Option<LoadTicket>,
    read: Option<u32>,
    /// Requests that came meanwhile.
    waiting: Vec<Waiter>,
}

/// A request that waits for somebody else's load.
#[derive(Clone, Copy)]
struct Waiter {
    /// What somebody had been answered with when it came.
    answered: u32,
    /// What the database had when it came.
    value: u32,
    /// Whether it has waited for an earlier load in vain.
    has_waited: bool,
}

struct Look {
    begun_at: Instant,
    changes_seen: usize,
    values_seen: [u32; SLUGS],
}

/// A database, a follower and requests around a cache.
struct World {
    cache: RedirectCache,
    now: Instant,
    /// Of each slug, as the database has it, with the moments of its changes.
    values: [u32; SLUGS],
    history: Vec<(Instant, [u32; SLUGS])>,
    changes: Vec<RedirectChange>,
    heard: usize,
    look: Option<Look>,
    loads: Vec<Load>,
    /// The newest value that somebody was answered with.
    answered: [u32; SLUGS],
    /// What the cache was told to forget is at least so new.
    heard_values: [u32; SLUGS],
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            cache: RedirectCache::new(1),
            now,
            values: [0; SLUGS],
            history: vec![(now, [0; SLUGS])],
            changes: Vec::new(),
            heard: 0,
            look: None,
            loads: Vec::new(),
            answered: [0; SLUGS],
            heard_values: [0; SLUGS],
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::ChangeSlug(slug) => self.change(&[*slug], RedirectChange::Slug(slug.to_string())),
            Step::ChangeAccount(first) => {
                let slugs: Vec<usize> = (*first..SLUGS).step_by(2).collect();
                self.change(&slugs, RedirectChange::Account(account_of(*first)));
            }
            Step::Ask(slug) => self.ask(*slug),
            Step::Read(load) => {
                if let Some(load) = self.loads.get_mut(*load) {
                    load.read = Some(self.values[load.slug]);
                }
            }
            Step::End(load) if *load < self.loads.len() => self.end(*load),
            Step::End(_) => {}
            Step::LookAtChanges => {
                self.look = Some(Look {
                    begun_at: self.now,
                    changes_seen: self.changes.len(),
                    values_seen: self.values,
                });
            }
            Step::HearChanges => self.hear(false),
            Step::HearOfGap => self.hear(true),
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

    fn ask(&mut self, slug: usize) {
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

    /// Of the loads for the cache, one is under way for each slug.
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
        let bound = self.now - STALENESS_MAX;
        let newest = self.history.iter().rev().find(|(at, _)| *at <= bound);
        if let Some((_, values)) = newest {
            assert!(value >= values[slug], "older than the bound");
        }
        assert!(value >= self.heard_values[slug], "forgotten, and back");
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
            self.note_answer(slug, value);
        }
        for waiter in load.waiting {
            self.tell(waiter, slug, load.ticket.zip(load.read));
        }
    }

    /// Ends the waiting for a load, which found this or was given up.
    fn tell(&mut self, waiter: Waiter, slug: usize, landed: Option<(LoadTicket, u32)>) {
        match landed {
            Some((_, value)) if waiter.has_waited => {
                assert!(value >= waiter.value, "older than the request");
                self.note_answer(slug, value);
            }
            Some((ticket, value)) if self.cache.is_current(ticket, self.now) => {
                self.assert_fresh(slug, value);
                assert!(value >= waiter.answered, "older than an answer before it");
                self.note_answer(slug, value);
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

    /// Two requests may be answered in another order than they have read in.
    fn note_answer(&mut self, slug: usize, value: u32) {
        self.answered[slug] = self.answered[slug].max(value);
    }

    fn hear(&mut self, of_gap: bool) {
        let Some(look) = self.look.take() else { return };
        let changes = self.changes[self.heard..look.changes_seen].to_vec();
        if of_gap {
            self.cache.invalidate(&Invalidation::Everything);
        } else if !changes.is_empty() {
            self.cache.invalidate(&Invalidation::Changes(changes));
        }
        self.cache.mark_fresh(look.begun_at);
        self.heard = look.changes_seen;
        self.heard_values = look.values_seen;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn answers_never_exceed_staleness_bound(
        steps in proptest::collection::vec(step(), 1..80)
    ) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
    }
}

#[test]
fn bypassed_answer_is_never_followed_by_older() {
    let mut world = World::new();
    for step in [
        Step::LookAtChanges,
        Step::HearChanges,
        Step::Ask(0),
        Step::Read(0),
        Step::End(0),
        Step::Pass(400),
        Step::LookAtChanges,
        Step::Pass(150),
        Step::ChangeSlug(0),
        // Bypassed: it sees what the look has not seen.
        Step::Ask(0),
        Step::Read(0),
        Step::End(0),
        Step::HearChanges,
        Step::Ask(0),
    ] {
        world.take(&step);
    }
    assert_eq!(world.answered[0], 1);
}

/// A cache that has just heard everything.
fn heard() -> (RedirectCache, Instant) {
    let cache = RedirectCache::new(1);
    let now = Instant::now();
    cache.mark_fresh(now);
    (cache, now)
}

/// By slug, those that are hits.
fn hits(cache: &RedirectCache, now: Instant) -> HashMap<usize, u32> {
    let hit = |slug: usize| match cache.look_up(&slug.to_string(), now) {
        CacheLookup::Hit(redirect) => Some((slug, value_of(&redirect))),
        CacheLookup::Miss | CacheLookup::Bypassed => None,
    };
    (0..SLUGS).filter_map(hit).collect()
}

#[test]
fn cache_without_recent_poll_is_bypassed() {
    let cache = RedirectCache::new(1);
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
    let (cache, now) = heard();
    let before = cache.ticket();
    cache.invalidate(&Invalidation::Changes(vec![RedirectChange::Slug(
        "3".to_owned(),
    )]));
    cache.store(before, "0", redirect(0, 1));
    assert!(hits(&cache, now).is_empty());
    // Nor does it leave what another one has loaded before it, and which is older.
    cache.store(cache.ticket(), "0", redirect(0, 0));
    cache.store(before, "0", redirect(0, 1));
    assert!(hits(&cache, now).is_empty());
    cache.store(cache.ticket(), "0", redirect(0, 2));
    assert_eq!(hits(&cache, now), HashMap::from([(0, 2)]));
}

#[test]
fn invalidation_removes_slug_account_or_everything() {
    let (cache, now) = heard();
    let fill = || {
        for slug in 0..SLUGS {
            let ticket = cache.ticket();
            cache.store(ticket, &slug.to_string(), redirect(slug, 1));
        }
    };
    for (forget, left) in [
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
        cache.invalidate(&forget);
        let mut slugs: Vec<usize> = hits(&cache, now).into_keys().collect();
        slugs.sort_unstable();
        assert_eq!(slugs, left, "{forget:?}");
    }
}
