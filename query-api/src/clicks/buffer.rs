//! Buffers of clicks: one for each worker thread, so that no two requests wait for each other.
//!
//! A click takes the lock of its thread's buffer, which only the drain takes too, and copies its bytes.
//! Its instant is taken inside the lock and is never before the begin of an earlier drain: after a drain
//! that began at T, every later click is at T or later, until the clock is set back and no heartbeat claims T.

use std::{
    collections::HashMap,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
};

use linkledger_clicks::BotPatterns;
use linkledger_core::{clock::Clock, id::AccountId};

use super::{
    ACCOUNT_SHARE,
    frame::{Frames, RawClick},
    merged::{ClickFacts, MergedClicks, milliseconds_of},
};

/// Maximum number of bytes of the clicks in one buffer. A drain empties the buffers every 10 ms.
pub(super) const BUFFER_BYTES_MAX: usize = 1 << 20;
/// Maximum number of bytes of the merged clicks in one buffer.
const MERGED_BYTES_MAX: usize = 1 << 20;
/// Longest step back of the clock during which clicks keep the instant of before. After a longer step the clock was
/// wrong before, and instants follow the corrected clock once no heartbeat claims later ones.
const SET_BACK_MAX_MS: i64 = 60_000;

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Number of the thread among all threads that have recorded a click.
    static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// Buffers of all threads.
pub(super) struct ClickBuffers {
    slots: Box<[Slot]>,
    clock: Arc<dyn Clock>,
    /// Begin of the latest drain, in milliseconds since 1970.
    drained_at_ms: AtomicI64,
}

/// Instants of a drain, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drain {
    /// Begin: clicks that are recorded from now on are not earlier.
    pub(super) began_at_ms: i64,
    /// Instant up to which clicks are recorded after the drain: the begin, or less while the clock is set back.
    pub(super) recorded_until_ms: i64,
}

/// Buffer of a thread, in cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Slot(Mutex<Buffer>);

/// Clicks of one thread since the last drain.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    pub(super) frames: Frames,
    /// Bytes of the frames of each account; `None` while the frames together are within the share of one.
    accounts: Option<HashMap<AccountId, usize>>,
    pub(super) merged: MergedClicks,
    /// Number of merged clicks.
    pub(super) merged_count: u64,
    /// Number of lost clicks.
    pub(super) lost_count: u64,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        // A panic inside the lock leaves whole frames, or texts without a frame.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClickBuffers {
    /// Creates `count` empty buffers, and one if `count` is 0. Threads share buffers if there are more threads.
    pub(super) fn new(count: usize, clock: Arc<dyn Clock>) -> Self {
        Self {
            slots: (0..count.max(1)).map(|_| Slot::default()).collect(),
            drained_at_ms: AtomicI64::new(milliseconds_of(clock.now())),
            clock,
        }
    }

    /// Returns the number of buffers.
    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }

    /// Adds a click to the buffer of this thread. A buffer without room for the account's click merges the click, or
    /// counts the click as lost if the merged clicks have no room either.
    pub(super) fn record(&self, click: &RawClick<'_>, bots: &BotPatterns) {
        let thread = THREAD.with(|thread| *thread);
        let mut buffer = self.slots[thread % self.slots.len()].lock();
        let now_ms = milliseconds_of(self.clock.now());
        let clicked_at_ms = now_ms.max(self.drained_at_ms.load(Ordering::Relaxed));
        if buffer.admits(click.facts.account_id, click.frame_bytes()) {
            buffer.frames.push(clicked_at_ms, click);
        } else {
            buffer.merge(click, clicked_at_ms, bots);
        }
    }

    /// Begins a drain. Heartbeats claim that all clicks before `claimed_until_ms` are recorded.
    pub(super) fn begin_drain(&self, claimed_until_ms: i64) -> Drain {
        let now_ms = milliseconds_of(self.clock.now());
        let before = self.drained_at_ms.load(Ordering::Relaxed);
        let is_set_back = before - now_ms > SET_BACK_MAX_MS;
        let began_at_ms = if is_set_back && claimed_until_ms - now_ms <= SET_BACK_MAX_MS {
            tracing::warn!(
                milliseconds = before - now_ms,
                "the clock of this machine was set back; clicks from before have later instants"
            );
            now_ms.max(claimed_until_ms)
        } else {
            before.max(now_ms)
        };
        // Ordered before the locks of `take`, so that a click after its buffer's `take` sees the value.
        self.drained_at_ms.store(began_at_ms, Ordering::Relaxed);
        let recorded_until_ms = if is_set_back { now_ms } else { began_at_ms };
        Drain {
            began_at_ms,
            recorded_until_ms,
        }
    }

    /// Takes the clicks of a buffer, and gives the buffer the empty memory of `taken`.
    pub(super) fn take(&self, number: usize, taken: &mut Buffer) {
        taken.frames.clear();
        taken.accounts = None;
        mem::swap(&mut *self.slots[number].lock(), taken);
    }
}

impl Buffer {
    /// Returns the number of clicks, without those of the frames that were read.
    pub(super) fn click_count(&self) -> u64 {
        self.frames.unread() as u64 + self.merged.count() + self.lost_count
    }

    /// Returns true if there is room for a frame of the account, which is then to be added.
    fn admits(&mut self, account_id: AccountId, bytes: usize) -> bool {
        let waiting = self.frames.bytes();
        let free = BUFFER_BYTES_MAX.saturating_sub(waiting);
        if self.accounts.is_none() && ACCOUNT_SHARE.may_add(waiting, bytes, free) {
            return true;
        }
        let frames = &self.frames;
        let accounts = self
            .accounts
            .get_or_insert_with(|| frames.bytes_by_account());
        let own = accounts.entry(account_id).or_default();
        let is_admitted = ACCOUNT_SHARE.may_add(*own, bytes, free);
        if is_admitted {
            *own += bytes;
        }
        is_admitted
    }

    fn merge(&mut self, click: &RawClick<'_>, clicked_at_ms: i64, bots: &BotPatterns) {
        let facts = ClickFacts {
            link_id: click.facts.link_id,
            account_id: click.facts.account_id,
            slug: click.slug,
            clicked_at_ms,
            kind: click.facts.kind(bots.matches(click.user_agent)),
            count: 1,
        };
        let bytes_free = MERGED_BYTES_MAX - self.merged.bytes();
        if self.merged.add(&facts, bytes_free) {
            self.merged_count += 1;
        } else {
            self.lost_count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use linkledger_core::id::{AccountId, LinkId};
    use linkledger_testing::FixedClock;
    use uuid::Uuid;

    use super::*;
    use crate::clicks::frame::RequestFacts;

    fn click(link: u128, user_agent: &[u8]) -> RawClick<'_> {
        RawClick {
            facts: RequestFacts {
                link_id: LinkId::from_uuid(Uuid::from_u128(link)),
                account_id: AccountId::from_uuid(Uuid::nil()),
                is_head: false,
                is_prefetch: false,
                wants_privacy: false,
                client_address: None,
                is_of_unlisted_proxy: false,
            },
            slug: "spring",
            user_agent,
            referer: b"",
        }
    }

    /// Reads the instants of all frames.
    fn instants(buffer: &mut Buffer) -> Vec<i64> {
        let frames = std::iter::from_fn(|| buffer.frames.read_next().map(|(at, _)| at));
        frames.collect()
    }

    #[test]
    fn full_buffer_merges_and_stays_bounded() {
        let buffers = ClickBuffers::new(1, Arc::new(FixedClock::default()));
        let bots = BotPatterns::parse("curl/").unwrap();
        let mut user_agent = [b'x'; 512];
        let browser = b"Mozilla/5.0 (iPhone) ";
        user_agent[..browser.len()].copy_from_slice(browser);
        let count = 10_000;
        for number in 0..count {
            let agent = if number % 2 == 0 {
                &user_agent[..]
            } else {
                b"curl/8"
            };
            buffers.record(&click(u128::from(number % 7), agent), &bots);
        }
        let mut taken = Buffer::default();
        buffers.take(0, &mut taken);
        assert!(taken.frames.bytes() <= BUFFER_BYTES_MAX);
        let whole = instants(&mut taken).len() as u64;
        assert_eq!(whole + taken.merged.count(), count);
        assert_eq!(taken.merged_count, taken.merged.count());
        assert_eq!(taken.lost_count, 0);
        // Of seven links, two kinds each.
        assert_eq!(std::iter::from_fn(|| taken.merged.pop()).count(), 14);
    }

    #[test]
    fn flood_of_one_account_merges_before_clicks_of_others() {
        let buffers = ClickBuffers::new(1, Arc::new(FixedClock::default()));
        let bots = BotPatterns::built_in();
        let of_account = |account: u128| {
            let mut click = click(account, b"Mozilla/5.0 (X11)");
            click.facts.account_id = AccountId::from_uuid(Uuid::from_u128(account));
            click
        };
        let frames = BUFFER_BYTES_MAX / of_account(1).frame_bytes();
        for number in 0..2 * frames {
            buffers.record(&of_account(1), &bots);
            if number % 100 == 0 {
                buffers.record(&of_account(2), &bots);
            }
        }
        let mut taken = Buffer::default();
        buffers.take(0, &mut taken);
        let merged = std::iter::from_fn(|| taken.merged.pop());
        let merged: Vec<u128> = merged.map(|it| it.link_id.uuid().as_u128()).collect();
        assert_eq!(merged, [1]);
        assert!(instants(&mut taken).len() > frames * 3 / 4);
        // The next buffer begins anew.
        buffers.record(&of_account(1), &bots);
        buffers.take(0, &mut taken);
        assert_eq!((instants(&mut taken).len(), taken.merged.count()), (1, 0));
    }

    #[test]
    fn full_map_counts_lost_clicks() {
        let buffers = ClickBuffers::new(1, Arc::new(FixedClock::default()));
        let bots = BotPatterns::built_in();
        let count = 20_000;
        for number in 0..count {
            buffers.record(&click(number, &[b'x'; 512]), &bots);
        }
        let mut taken = Buffer::default();
        buffers.take(0, &mut taken);
        assert!(taken.merged.bytes() <= MERGED_BYTES_MAX);
        assert!(taken.lost_count > 0);
        assert_eq!(u128::from(taken.click_count()), count);
        let kept = instants(&mut taken).len() as u64 + taken.merged.count();
        assert_eq!(u128::from(kept + taken.lost_count), count);
    }

    #[test]
    fn clicks_after_drain_are_not_earlier_than_drain() {
        let clock = Arc::new(FixedClock::default());
        let buffers = ClickBuffers::new(1, Arc::clone(&clock) as Arc<dyn Clock>);
        let bots = BotPatterns::built_in();
        clock.advance(std::time::Duration::from_secs(1));
        let drained_at = buffers.begin_drain(0).began_at_ms;
        let mut taken = Buffer::default();
        buffers.take(0, &mut taken);
        // The clock of the machine is set back.
        let set_back = ClickBuffers {
            clock: Arc::new(FixedClock::default()),
            ..buffers
        };
        set_back.record(&click(1, b"x"), &bots);
        let drain = Drain {
            began_at_ms: drained_at,
            recorded_until_ms: drained_at,
        };
        assert_eq!(set_back.begin_drain(0), drain);
        set_back.take(0, &mut taken);
        assert_eq!(instants(&mut taken), [drained_at]);
    }

    #[test]
    fn instants_follow_set_back_clock_once_unclaimed() {
        let clock = Arc::new(FixedClock::default());
        let buffers = ClickBuffers::new(1, Arc::clone(&clock) as Arc<dyn Clock>);
        let bots = BotPatterns::built_in();
        let hour = std::time::Duration::from_hours(1);
        clock.advance(hour);
        let ahead_ms = buffers.begin_drain(0).began_at_ms;
        clock.set_back(hour);
        let now_ms = milliseconds_of(clock.now());
        // A heartbeat claims the instant that is ahead: clicks keep it, and the next heartbeat claims less.
        let drain = Drain {
            began_at_ms: ahead_ms,
            recorded_until_ms: now_ms,
        };
        assert_eq!(buffers.begin_drain(ahead_ms), drain);
        buffers.record(&click(1, b"x"), &bots);
        let drain = Drain {
            began_at_ms: now_ms,
            recorded_until_ms: now_ms,
        };
        assert_eq!(buffers.begin_drain(now_ms), drain);
        buffers.record(&click(1, b"x"), &bots);
        let mut taken = Buffer::default();
        buffers.take(0, &mut taken);
        assert_eq!(instants(&mut taken), [ahead_ms, now_ms]);
    }
}
