//! Follows the changes of redirects, and invalidates the cache entries that have changed.
//!
//! Changes are numbered without gaps and become visible in order. Loads of the cache read the same server as the follower, so the
//! follower reads every change that a load has missed later.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use linkledger_service::metrics::REDIRECT_CACHE_AGE_SECONDS;
use metrics::gauge;
use sqlx::PgPool;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    read_model::redirects::{self, NumberingOrigin, RedirectChanges},
    redirect_cache::{Invalidation, RedirectCache},
};

/// Interval of polling the changes.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout of one poll.
const FOLLOW_TIME_MAX: Duration = Duration::from_secs(2);
/// Maximum number of changes of one page. A poll reads page after page until the cache knows every change.
const PAGE_CHANGES_MAX: i64 = 1_000;
/// Maximum number of pages of one poll. With more changes the cache does not become fresh; later polls
/// read the rest.
const PAGES_MAX: u32 = 100;

/// Last change that the cache was invalidated for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ChangeCursor {
    /// Numbers of another origin cannot be compared.
    origin: NumberingOrigin,
    number: i64,
}

impl ChangeCursor {
    /// Returns the cursor after a page of changes, and the invalidation that the page requires, if any.
    fn advance(previous: Option<Self>, page: RedirectChanges) -> (Self, Option<Invalidation>) {
        let (origin, last_number) = (page.origin, page.last_number);
        let end = Self {
            origin,
            number: last_number,
        };
        let Some(previous) = previous.filter(|previous| previous.origin == origin) else {
            return (end, Some(Invalidation::Everything));
        };
        if previous == end {
            return (end, None);
        }
        let count = i64::try_from(page.changes.len()).expect("a page is short");
        let number = previous.number + count;
        let is_next = page.first_number == Some(previous.number + 1);
        let is_whole = number == last_number || number < last_number && count == PAGE_CHANGES_MAX;
        if is_next && is_whole {
            let changes = Invalidation::Changes(page.changes);
            (Self { origin, number }, Some(changes))
        } else {
            // Numbers that went back, or pruned changes.
            (end, Some(Invalidation::Everything))
        }
    }
}

/// Polls the changes of redirects and invalidates the cache.
pub(crate) struct ChangeFollower {
    cache: Arc<RedirectCache>,
    /// Pool of the follower alone: requests that wait for the database must not delay the follower.
    pool: PgPool,
    cursor: Option<ChangeCursor>,
    last_read_began_at: Instant,
}

impl ChangeFollower {
    pub(crate) fn new(cache: Arc<RedirectCache>, pool: PgPool) -> Self {
        Self {
            cache,
            pool,
            cursor: None,
            last_read_began_at: Instant::now(),
        }
    }

    /// Follows the changes until the shutdown. After a failure the follower retries; lookups bypass
    /// the redirect cache once it is stale by its maximum, until a retry succeeds.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut due = interval(FOLLOW_INTERVAL);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_following = true;
        loop {
            tokio::select! {
                _ = due.tick() => {}
                () = shutdown.cancelled() => return Ok(()),
            }
            let outcome = tokio::select! {
                outcome = self.follow() => outcome,
                () = shutdown.cancelled() => return Ok(()),
            };
            // An outage is logged at its beginning and at its end, not ten times a second.
            match &outcome {
                Err(error) if is_following => tracing::warn!(
                    error = format!("{error:#}"),
                    "cannot read the changes of redirects; lookups bypass the redirect cache from \
                     REDIRECT_STALENESS_MAX_MS after the last successful read, until a retry succeeds"
                ),
                Ok(()) if !is_following => {
                    tracing::info!(
                        "reads the changes of redirects again; the redirect cache is in use"
                    );
                }
                Ok(()) | Err(_) => {}
            }
            is_following = outcome.is_ok();
            gauge!(REDIRECT_CACHE_AGE_SECONDS).set(self.last_read_began_at.elapsed().as_secs_f64());
        }
    }

    /// Polls the changes once.
    async fn follow(&mut self) -> anyhow::Result<()> {
        for _ in 0..PAGES_MAX {
            let begun_at = Instant::now();
            if self.follow_page().await? {
                self.cache.mark_fresh(begun_at);
                self.last_read_began_at = begun_at;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads one page of changes. Returns true if the page was the last one.
    async fn follow_page(&mut self) -> anyhow::Result<bool> {
        let after = self.cursor.map_or(i64::MAX, |cursor| cursor.number);
        let reading = redirects::changes_after(&self.pool, after, PAGE_CHANGES_MAX);
        let page = timeout(FOLLOW_TIME_MAX, reading)
            .await
            .context("the database does not answer within the timeout of 2 s")?
            .context("cannot read the changes of redirects")?;
        let last_number = page.last_number;
        let (cursor, invalidation) = ChangeCursor::advance(self.cursor, page);
        if let Some(invalidation) = invalidation {
            self.cache.invalidate(&invalidation);
        }
        self.cursor = Some(cursor);
        Ok(cursor.number == last_number)
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::read_model::redirects::RedirectChange;

    const ORIGIN: NumberingOrigin = NumberingOrigin {
        epoch: 1,
        generation: 1,
        server_started_at: datetime!(2026-11-20 09:51 UTC),
    };
    const FIRST: ChangeCursor = ChangeCursor {
        origin: ORIGIN,
        number: 7,
    };

    /// Changes after `FIRST` up to `last_number`, of which only `kept` are not pruned.
    fn changes(last_number: i64, kept: &[i64]) -> RedirectChanges {
        RedirectChanges {
            origin: ORIGIN,
            last_number,
            first_number: kept.first().copied(),
            changes: kept.iter().map(|number| slug(*number)).collect(),
        }
    }

    fn slug(number: i64) -> RedirectChange {
        RedirectChange::Slug(number.to_string())
    }

    #[test]
    fn complete_changes_invalidate_single_slugs() {
        let (cursor, invalidation) = ChangeCursor::advance(Some(FIRST), changes(7, &[]));
        assert_eq!((cursor, invalidation), (FIRST, None));
        let (cursor, invalidation) = ChangeCursor::advance(Some(FIRST), changes(9, &[8, 9]));
        assert_eq!(cursor.number, 9);
        let slugs = vec![slug(8), slug(9)];
        assert_eq!(invalidation, Some(Invalidation::Changes(slugs)));
    }

    #[test]
    fn full_page_is_followed_by_the_next() {
        let page: Vec<i64> = (8..8 + PAGE_CHANGES_MAX).collect();
        let (cursor, invalidation) = ChangeCursor::advance(Some(FIRST), changes(5_000, &page));
        assert_eq!(cursor.number, 7 + PAGE_CHANGES_MAX);
        let slugs = page.iter().map(|number| slug(*number)).collect();
        assert_eq!(invalidation, Some(Invalidation::Changes(slugs)));
    }

    #[test]
    fn possibly_missed_changes_invalidate_everything() {
        let first_poll = ChangeCursor::advance(None, changes(7, &[]));
        assert_eq!(first_poll, (FIRST, Some(Invalidation::Everything)));
        let full_page: Vec<i64> = (9..9 + PAGE_CHANGES_MAX).collect();
        for (case, changes) in [
            ("pruned", changes(9, &[9])),
            ("pruned before a full page", changes(5_000, &full_page)),
            ("all pruned", changes(9, &[])),
            ("numbers went back", changes(6, &[])),
        ] {
            let number = changes.last_number;
            let (cursor, invalidation) = ChangeCursor::advance(Some(FIRST), changes);
            assert_eq!(invalidation, Some(Invalidation::Everything), "{case}");
            assert_eq!(cursor.number, number, "{case}");
        }
        let origins = [
            NumberingOrigin { epoch: 2, ..ORIGIN },
            NumberingOrigin {
                generation: 2,
                ..ORIGIN
            },
            // A restored or a replaced server may reuse numbers.
            NumberingOrigin {
                server_started_at: datetime!(2026-11-20 09:52 UTC),
                ..ORIGIN
            },
        ];
        for origin in origins {
            let changes = RedirectChanges {
                origin,
                ..changes(8, &[8])
            };
            let (cursor, invalidation) = ChangeCursor::advance(Some(FIRST), changes);
            assert_eq!(invalidation, Some(Invalidation::Everything), "{origin:?}");
            assert_eq!(cursor.origin, origin);
        }
    }
}
