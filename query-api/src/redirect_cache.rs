//! Cache of redirects: bounded in memory, and stale by a maximum time (`REDIRECT_STALENESS_MAX_MS`).
//!
//! The cache does no I/O: `redirect` stores entries, `redirect_changes` invalidates them. An entry stays until the cache is full
//! or until the entry is invalidated. The cache never stores that a slug is unknown.

mod weight;

use std::{
    collections::HashSet,
    sync::{
        PoisonError, RwLock, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use self::weight::{Entries, bounded};
use crate::read_model::redirects::{Redirect, RedirectChange};

/// Entries to remove from the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Invalidation {
    Changes(Vec<RedirectChange>),
    Everything,
}

/// Result of a cache lookup.
#[derive(Debug)]
pub(crate) enum CacheLookup {
    Hit(Redirect),
    /// No entry: the caller loads the redirect and stores the entry.
    Miss,
    /// Cache that may be stale: the caller loads the redirect and stores nothing.
    Bypassed,
}

/// Number of invalidations before a load began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoadTicket(u64);

/// Redirects by lower-cased slug.
pub(crate) struct RedirectCache {
    entries: Entries,
    /// Maximum staleness of an answer from the cache. Lookups bypass the cache once the changes were last
    /// read longer ago.
    staleness_max: Duration,
    /// Number of invalidations so far. A load that began before an invalidation may have read stale
    /// data, and must not be stored after the invalidation. Storing holds the read lock, so that no
    /// invalidation comes between the comparison and the insertion.
    invalidation_count: RwLock<u64>,
    begun_at: Instant,
    /// Latest instant up to which all changes are invalidated, in microseconds since `begun_at`, plus
    /// 1; 0 before the first read of the changes.
    fresh_at: AtomicU64,
}

impl RedirectCache {
    /// Creates an empty cache of at most `mib_max` MiB. Lookups bypass the cache until the changes
    /// are read for the first time.
    pub(crate) fn new(mib_max: u32, staleness_max: Duration) -> Self {
        Self {
            entries: bounded(mib_max),
            staleness_max,
            invalidation_count: RwLock::new(0),
            begun_at: Instant::now(),
            fresh_at: AtomicU64::new(0),
        }
    }

    /// Looks up the redirect of a slug.
    pub(crate) fn look_up(&self, slug_key: &str, now: Instant) -> CacheLookup {
        // Freshness is checked before the entry is read: an entry that was invalidated by then is
        // no longer found.
        if !self.is_fresh(now) {
            return CacheLookup::Bypassed;
        }
        match self.entries.get(slug_key) {
            Some(redirect) => CacheLookup::Hit(redirect),
            None => CacheLookup::Miss,
        }
    }

    /// Returns a ticket for a load that begins now.
    pub(crate) fn ticket(&self) -> LoadTicket {
        let invalidation_count = self.invalidation_count.read();
        LoadTicket(*invalidation_count.unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if the cache is fresh, and nothing was invalidated since the ticket was issued.
    pub(crate) fn is_current(&self, ticket: LoadTicket, now: Instant) -> bool {
        self.is_fresh(now) && self.ticket() == ticket
    }

    /// Stores a loaded redirect, or removes the entry of the slug if anything was invalidated since
    /// the ticket was issued. Callers store before they answer: an older entry must not be served
    /// afterwards.
    pub(crate) fn store(&self, ticket: LoadTicket, slug_key: &str, redirect: Redirect) {
        let invalidation_count = self
            .invalidation_count
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if LoadTicket(*invalidation_count) == ticket {
            self.entries.insert(slug_key.into(), redirect);
        } else {
            self.entries.remove(slug_key);
        }
    }

    /// Removes the entry of a slug. Callers invalidate a slug before they answer with a redirect
    /// that bypassed the cache: the cached entry may be older, and must not be served afterwards.
    pub(crate) fn invalidate_slug(&self, slug_key: &str) {
        let _invalidating = self.begin_invalidation();
        self.entries.remove(slug_key);
    }

    /// Removes the invalidated entries. Loads that began earlier are not stored any more.
    pub(crate) fn invalidate(&self, invalidation: &Invalidation) {
        let _invalidating = self.begin_invalidation();
        let changes = match invalidation {
            Invalidation::Everything => return self.entries.clear(),
            Invalidation::Changes(changes) => changes,
        };
        let mut accounts = HashSet::new();
        for change in changes {
            match change {
                RedirectChange::Slug(slug) => {
                    self.entries.remove(slug.as_str());
                }
                RedirectChange::Account(account_id) => {
                    accounts.insert(*account_id);
                }
            }
        }
        // Scans all entries: suspensions of accounts are rare.
        if !accounts.is_empty() {
            self.entries
                .retain(|_, redirect| !accounts.contains(&redirect.account_id));
        }
    }

    /// Counts an invalidation. No load is stored while the returned lock is held.
    fn begin_invalidation(&self) -> RwLockWriteGuard<'_, u64> {
        let count = self.invalidation_count.write();
        let mut count = count.unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        count
    }

    /// Records that all changes up to this instant are invalidated.
    pub(crate) fn mark_fresh(&self, up_to: Instant) {
        let since_begin = up_to.duration_since(self.begun_at).as_micros();
        let since_begin = u64::try_from(since_begin).expect("a process ends before that");
        self.fresh_at.store(since_begin + 1, Ordering::Release);
    }

    fn is_fresh(&self, now: Instant) -> bool {
        match self.fresh_at.load(Ordering::Acquire) {
            0 => false,
            since_begin => {
                let fresh_at = self.begun_at + Duration::from_micros(since_begin - 1);
                now.duration_since(fresh_at) < self.staleness_max
            }
        }
    }
}

#[cfg(test)]
mod tests;
