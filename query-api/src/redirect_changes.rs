//! Follows the changes of redirects, so that the cache forgets what has changed.
//!
//! Changes are numbered without gaps and become visible in order. Loads read the same server: what
//! a load has missed is still to come here.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use linkledger_core::metrics::{REDIRECT_CACHE_AGE_SECONDS, REDIRECT_CACHE_BYTES};
use metrics::gauge;
use sqlx::PgPool;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    read_model::redirects::{self, Changes, Origin},
    redirect_cache::{Forget, RedirectCache},
};

/// Time between two looks at the changes.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);
/// Longest time that a look may take; long after this the cache is bypassed.
const FOLLOW_TIME_MAX: Duration = Duration::from_secs(2);
/// Most changes that are looked at one by one; if there are more, everything is forgotten.
const CHANGES_MAX: i64 = 1_000;

/// Up to where the cache has forgotten what has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Followed {
    origin: Origin,
    number: i64,
}

impl Followed {
    /// What has to be forgotten, given what is there now; `None` for nothing.
    fn advance(previous: Option<Self>, seen: Changes) -> (Self, Option<Forget>) {
        let now = Self {
            origin: seen.origin,
            number: seen.last_number,
        };
        let forget = match previous {
            Some(previous) if previous == now => None,
            Some(previous) if previous.precedes(now, seen.found.len()) => {
                Some(Forget::These(seen.found))
            }
            // Numbers of another origin, or such as went back or were pruned meanwhile.
            Some(_) | None => Some(Forget::Everything),
        };
        (now, forget)
    }

    /// Whether just as many changes as were found lead from one to the other.
    fn precedes(self, later: Self, found: usize) -> bool {
        self.origin == later.origin
            && i64::try_from(found).is_ok_and(|found| self.number + found == later.number)
    }
}

/// Tells the cache of changes.
pub(crate) struct Follower {
    cache: Arc<RedirectCache>,
    /// Of its own: requests that wait for the database must not make it miss changes.
    pool: PgPool,
    followed: Option<Followed>,
    heard_at: Instant,
}

impl Follower {
    pub(crate) fn new(cache: Arc<RedirectCache>, pool: PgPool) -> Self {
        Self {
            cache,
            pool,
            followed: None,
            heard_at: Instant::now(),
        }
    }

    /// Follows until the shutdown. Failures pass by themselves; meanwhile the cache is bypassed.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut due = interval(FOLLOW_INTERVAL);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_following = true;
        loop {
            tokio::select! {
                _ = due.tick() => {}
                () = shutdown.cancelled() => return Ok(()),
            }
            let outcome = self.follow().await;
            // Said when it begins and when it ends, not ten times a second.
            match &outcome {
                Err(error) if is_following => tracing::warn!(
                    error = format!("{error:#}"),
                    "the redirect cache is bypassed until changes can be followed again"
                ),
                Ok(()) if !is_following => tracing::info!("changes can be followed again"),
                Ok(()) | Err(_) => {}
            }
            is_following = outcome.is_ok();
            gauge!(REDIRECT_CACHE_AGE_SECONDS).set(self.heard_at.elapsed().as_secs_f64());
            gauge!(REDIRECT_CACHE_BYTES).set(self.cache.bytes());
        }
    }

    /// Looks once.
    async fn follow(&mut self) -> anyhow::Result<()> {
        let begun_at = Instant::now();
        let after = self.followed.map_or(i64::MAX, |followed| followed.number);
        let reading = redirects::changes_after(&self.pool, after, CHANGES_MAX);
        let seen = timeout(FOLLOW_TIME_MAX, reading)
            .await
            .context("the database does not answer in time")?
            .context("can't read the changes of redirects")?;
        let (followed, forget) = Followed::advance(self.followed, seen);
        if let Some(forget) = forget {
            self.cache.forget(&forget);
        }
        self.cache.heard_everything(begun_at);
        self.heard_at = begun_at;
        self.followed = Some(followed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::read_model::redirects::Change;

    const ORIGIN: Origin = Origin {
        epoch: 1,
        generation: 1,
        server_started_at: datetime!(2026-11-20 09:51 UTC),
    };
    const FIRST: Followed = Followed {
        origin: ORIGIN,
        number: 7,
    };

    /// What there is after `FIRST`, with those numbers' changes still there.
    fn seen(last_number: i64, found: &[i64]) -> Changes {
        Changes {
            origin: ORIGIN,
            last_number,
            found: found.iter().map(|number| slug(*number)).collect(),
        }
    }

    fn slug(number: i64) -> Change {
        Change::Slug(number.to_string())
    }

    #[test]
    fn changes_are_forgotten_one_by_one_while_none_is_missing() {
        let (followed, forget) = Followed::advance(Some(FIRST), seen(7, &[]));
        assert_eq!((followed, forget), (FIRST, None));
        let (followed, forget) = Followed::advance(Some(FIRST), seen(9, &[8, 9]));
        assert_eq!(followed.number, 9);
        assert_eq!(forget, Some(Forget::These(vec![slug(8), slug(9)])));
    }

    #[test]
    fn everything_is_forgotten_when_something_may_have_been_missed() {
        let nothing_is_known = Followed::advance(None, seen(7, &[]));
        assert_eq!(nothing_is_known, (FIRST, Some(Forget::Everything)));
        for (what, seen) in [
            ("pruned", seen(9, &[9])),
            ("all pruned", seen(9, &[])),
            ("numbers went back", seen(6, &[])),
        ] {
            let number = seen.last_number;
            let (followed, forget) = Followed::advance(Some(FIRST), seen);
            assert_eq!(forget, Some(Forget::Everything), "{what}");
            assert_eq!(followed.number, number, "{what}");
        }
        let origins = [
            Origin { epoch: 2, ..ORIGIN },
            Origin {
                generation: 2,
                ..ORIGIN
            },
            // Restored, or another one in its place: its numbers may have been given out before.
            Origin {
                server_started_at: datetime!(2026-11-20 09:52 UTC),
                ..ORIGIN
            },
        ];
        for origin in origins {
            let seen = Changes {
                origin,
                ..seen(8, &[8])
            };
            let (followed, forget) = Followed::advance(Some(FIRST), seen);
            assert_eq!(forget, Some(Forget::Everything), "{origin:?}");
            assert_eq!(followed.origin, origin);
        }
    }
}
