//! Feeds of events: pages of an account's events in the order of the log, and waits for the next event.
//!
//! The event store answers, so a feed is never behind, and forgets nothing. No index serves a filter by type: a request
//! looks at a bounded number of events.

mod page;
mod place;

use std::sync::Arc;

use linkledger_core::{envelope::RecordedEvent, event::DecodeError, id::AccountId};
use linkledger_event_store::{
    log::feed::{FeedPlace, end_place, place_at},
    log_meta,
};
use linkledger_http::{
    per_account_limit::PerAccountLimit,
    problem::{Code, Problem},
};
use linkledger_service::{
    lifecycle::Tasks,
    log_activity::{self, LogActivity},
};
use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

pub(crate) use self::{page::WantedEvents, place::EpochPlace};
use crate::slow_reads::{SHARE_TIME_MAX, SlowReadAdvice, SlowReads};

const ADVICE: SlowReadAdvice = SlowReadAdvice {
    share_in_use: "Other events of this account are being read: retry later, with fewer requests at a time.",
    too_slow: "The events took too long to read: retry later.",
};

/// Maximum number of requests of an account that wait at a time.
const WAITS_OF_ACCOUNT_MAX: usize = 4;
/// Maximum number of requests of all accounts that wait at a time. Each holds a connection, and some KiB.
const WAITS_MAX: usize = 10_000;
/// Detail of the problem of a further request.
const WAITS_IN_USE: &str = "Other requests of this account wait for events already, or too many of all accounts do: \
                            retry later, and let one reader wait for all.";

/// Start of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PageStart {
    /// That of a first page.
    First(FeedStart),
    /// The end of another page.
    After(EpochPlace),
}

/// Start of a first page.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FeedStart {
    /// Before the first event of the account.
    Beginning,
    /// After the last event of the account.
    Now,
    /// Before the first event that was recorded at an instant or later.
    At(OffsetDateTime),
}

/// A page of the events of an account.
#[derive(Debug)]
pub(crate) struct EventsOnPage {
    /// The wanted events, in order.
    pub(crate) events: Vec<RecordedEvent>,
    /// Place right after the page.
    pub(crate) next: EpochPlace,
    /// True if the account has events after the page, wanted or not.
    pub(crate) has_more: bool,
}

/// Reads of events of accounts, with sessions of their own.
pub(crate) struct Feed {
    reads: SlowReads,
    activity: Arc<LogActivity>,
    /// Requests that wait.
    waits: PerAccountLimit,
    shutdown: CancellationToken,
}

impl Feed {
    /// Starts the task that ends the waits. The database of the pool has the event store.
    pub(crate) fn start(pool: PgPool, tasks: &mut Tasks) -> Self {
        let activity = Arc::<LogActivity>::default();
        let (asking, log) = (Arc::clone(&activity), pool.clone());
        tasks.spawn_housekeeping("feed activity", move |shutdown| {
            log_activity::follow(Arc::clone(&asking), log.clone(), shutdown)
        });
        Self {
            reads: SlowReads::new(pool, ADVICE),
            activity,
            waits: PerAccountLimit::new(WAITS_OF_ACCOUNT_MAX, WAITS_MAX),
            shutdown: tasks.shutdown(),
        }
    }

    /// Returns the reads on the sessions, for others that share them.
    pub(crate) const fn reads(&self) -> &SlowReads {
        &self.reads
    }

    /// Reads a page.
    ///
    /// # Errors
    /// Returns `log_restored` if the start is of another epoch, and the problems of [`SlowReads::read`].
    pub(crate) async fn read(
        &self,
        account_id: AccountId,
        start: PageStart,
        wanted: &WantedEvents,
    ) -> Result<EventsOnPage, Problem> {
        let pool = self.reads.pool();
        let read = || read_page(pool, account_id, start, wanted);
        let (page, epoch) = self.reads.read(account_id, read).await?;
        if page.next.epoch != epoch {
            return Err(Problem::log_restored());
        }
        Ok(page)
    }

    /// Reads a page like [`Self::read`]. If the page is empty and the last one, waits for a wanted event until the
    /// instant or the shutdown.
    ///
    /// # Errors
    /// Returns the problems of [`Self::read`], and `overloaded` if too many requests wait.
    pub(crate) async fn read_or_wait(
        &self,
        account_id: AccountId,
        start: PageStart,
        wanted: &WantedEvents,
        until: Instant,
    ) -> Result<EventsOnPage, Problem> {
        // Before the read, so that no event is missed after it.
        let mut activity = self.activity.of(account_id);
        let mut page = self.read(account_id, start, wanted).await?;
        if page.is_at_end() {
            let waits = &self.waits;
            let patience = SHARE_TIME_MAX.min(until.saturating_duration_since(Instant::now()));
            let waiting = waits.acquire_in_time(account_id, patience, WAITS_IN_USE);
            let _share = waiting.await?;
            while page.is_at_end() && self.has_activity(&mut activity, until).await {
                let start = PageStart::After(page.next);
                page = self.read(account_id, start, wanted).await?;
            }
        }
        Ok(page)
    }

    /// Waits for events of an account. Returns false if there are none until the instant or the shutdown.
    async fn has_activity(&self, activity: &mut watch::Receiver<()>, until: Instant) -> bool {
        tokio::select! {
            changed = activity.changed() => changed.is_ok(),
            () = sleep_until(until) => false,
            () = self.shutdown.cancelled() => false,
        }
    }
}

impl EventsOnPage {
    /// Returns true if there is nothing to answer yet.
    fn is_at_end(&self) -> bool {
        self.events.is_empty() && !self.has_more
    }
}

/// Reads a page, and the epoch of the log afterwards: if the log was restored meanwhile, it is another one than that of
/// the page.
async fn read_page(
    pool: &PgPool,
    account_id: AccountId,
    start: PageStart,
    wanted: &WantedEvents,
) -> sqlx::Result<(EventsOnPage, i32)> {
    let EpochPlace { epoch, place } = place_of(pool, account_id, start).await?;
    let page = page::scan(pool, account_id, place, wanted).await?;
    let page = EventsOnPage {
        events: page.events,
        next: EpochPlace {
            epoch,
            place: page.next,
        },
        has_more: page.has_more,
    };
    Ok((page, log_meta::epoch(pool).await?))
}

/// Returns the place of a start. The epoch is read first: a place in an older log must not get a newer epoch.
async fn place_of(
    pool: &PgPool,
    account_id: AccountId,
    start: PageStart,
) -> sqlx::Result<EpochPlace> {
    let first = match start {
        PageStart::First(first) => first,
        PageStart::After(place) => return Ok(place),
    };
    let epoch = log_meta::epoch(pool).await?;
    let place = match first {
        FeedStart::Beginning => FeedPlace::BEGINNING,
        FeedStart::Now => end_place(pool, account_id).await?,
        FeedStart::At(instant) => place_at(pool, account_id, instant).await?,
    };
    Ok(EpochPlace { epoch, place })
}

/// Returns the problem of an event that this release cannot read: without it, the reader would miss it for ever.
pub(crate) fn unreadable(event: &RecordedEvent, error: &DecodeError) -> Problem {
    let error = error as &dyn std::error::Error;
    tracing::error!(event.id = %event.event_id, error, "cannot read an event of a feed; a later release wrote it");
    Problem::new(
        Code::ReadModelBehind,
        "A later release of the service has written one of the events; retry in a second.",
    )
    .retry_after(1)
}
