//! Redirects in memory: bounded, and never older than what was last heard of changes.
//!
//! No I/O: `redirect_changes` tells it what to forget, `redirect` fills it. An entry stays until
//! it is pushed out or forgotten. Nobody remembers here that there is nothing.

mod weight;

use std::{
    collections::HashSet,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use self::weight::{Entries, bounded};
use crate::read_model::redirects::{Change, Redirect};

/// How long ago all changes may have been heard of at most: otherwise the cache is not asked.
pub(crate) const HEARD_WITHIN: Duration = Duration::from_millis(500);

/// Which entries have to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Forget {
    These(Vec<Change>),
    Everything,
}

/// What the cache says to a request.
#[derive(Debug)]
pub(crate) enum LookUp {
    Hit(Redirect),
    /// Load it, and remember it.
    Miss,
    /// It has not heard of changes for too long. Load it, and don't remember it.
    Bypassed,
}

/// The state of the cache in which a load began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// Redirects by folded slug.
pub(crate) struct RedirectCache {
    entries: Entries,
    /// How often something was forgotten. A load that began before that may have read what is
    /// outdated: it is not remembered after it. Held for reading while an entry is stored, so that
    /// it can't slip in between.
    forgotten_count: RwLock<u64>,
    begun_at: Instant,
    /// When all changes had been heard of, in microseconds since `begun_at`, plus 1; 0 for never.
    heard_at: AtomicU64,
}

impl RedirectCache {
    /// An empty cache of at most so many MiB. It is bypassed until it hears of changes.
    pub(crate) fn new(mib_max: u32) -> Self {
        Self {
            entries: bounded(mib_max),
            forgotten_count: RwLock::new(0),
            begun_at: Instant::now(),
            heard_at: AtomicU64::new(0),
        }
    }

    /// What is known of a slug.
    pub(crate) fn look_up(&self, slug_folded: &str, now: Instant) -> LookUp {
        // Before the entry: what is forgotten until then can't be found any more.
        if !self.has_heard_lately(now) {
            return LookUp::Bypassed;
        }
        match self.entries.get(slug_folded) {
            Some(redirect) => LookUp::Hit(redirect),
            None => LookUp::Miss,
        }
    }

    /// What is loaded from now on may be remembered under this ticket.
    pub(crate) fn ticket(&self) -> Ticket {
        let forgotten_count = self.forgotten_count.read();
        Ticket(*forgotten_count.unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether what was loaded under this ticket is as good as an entry.
    pub(crate) fn is_current(&self, ticket: Ticket, now: Instant) -> bool {
        self.has_heard_lately(now) && self.ticket() == ticket
    }

    /// Remembers what was loaded, before it is answered with. If something was forgotten since the
    /// load began, nothing is known of the slug instead.
    pub(crate) fn store(&self, ticket: Ticket, slug_folded: &str, redirect: Redirect) {
        let forgotten_count = self
            .forgotten_count
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if Ticket(*forgotten_count) == ticket {
            self.entries.insert(slug_folded.into(), redirect);
        } else {
            self.entries.remove(slug_folded);
        }
    }

    /// To be called before something is answered that was loaded past the cache: it may be newer
    /// than what is here, and what is older must not come back after it.
    pub(crate) fn forget_slug(&self, slug_folded: &str) {
        let mut forgotten_count = self
            .forgotten_count
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *forgotten_count += 1;
        self.entries.remove(slug_folded);
    }

    /// Forgets; from here on nothing is remembered that was loaded before.
    pub(crate) fn forget(&self, forget: &Forget) {
        let mut forgotten_count = self
            .forgotten_count
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *forgotten_count += 1;
        let changes = match forget {
            Forget::Everything => return self.entries.clear(),
            Forget::These(changes) => changes,
        };
        let mut accounts = HashSet::new();
        for change in changes {
            match change {
                Change::Slug(slug) => {
                    self.entries.remove(slug.as_str());
                }
                Change::Account(account_id) => {
                    accounts.insert(*account_id);
                }
            }
        }
        // All entries are looked through: an account is suspended rarely.
        if !accounts.is_empty() {
            self.entries
                .retain(|_, redirect| !accounts.contains(&redirect.account_id));
        }
    }

    /// All changes up to this moment have been forgotten.
    pub(crate) fn heard_everything(&self, until: Instant) {
        let since_begin = until.duration_since(self.begun_at).as_micros();
        let since_begin = u64::try_from(since_begin).expect("a process ends before that");
        self.heard_at.store(since_begin + 1, Ordering::Release);
    }

    fn has_heard_lately(&self, now: Instant) -> bool {
        match self.heard_at.load(Ordering::Acquire) {
            0 => false,
            since_begin => {
                let heard_at = self.begun_at + Duration::from_micros(since_begin - 1);
                now.duration_since(heard_at) < HEARD_WITHIN
            }
        }
    }

    /// About how much memory the entries take.
    #[expect(clippy::cast_precision_loss, reason = "a metric")]
    pub(crate) fn bytes(&self) -> f64 {
        self.entries.weight() as f64
    }
}

#[cfg(test)]
mod tests;
