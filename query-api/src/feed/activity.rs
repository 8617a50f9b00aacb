//! Tells requests that wait for events of their accounts that there are some. One task asks the log for all of them,
//! while any waits.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use linkledger_core::{
    id::AccountId,
    shard::{Position, Shard},
};
use linkledger_event_store::log::{self, PerShard, feed::accounts_between};
use sqlx::PgPool;
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::read_model::try_read_in_time;

/// Interval of asking for new events while a request waits.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Delay after a failed poll.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Positions of a shard whose accounts one statement looks at. After more, every request of the shard looks itself.
const POSITIONS_MAX: i64 = 4_000;

/// Accounts of waiting requests. Each request has a receiver.
type Waiting = PerShard<HashMap<AccountId, watch::Sender<()>>>;

/// Requests that wait for events of their accounts.
#[derive(Default)]
pub(super) struct Activity {
    accounts: Mutex<Waiting>,
    request_waits: Notify,
}

impl Activity {
    /// Returns a receiver that changes after every event of the account that a read after this call may lack. It may
    /// change without such an event.
    pub(super) fn of(&self, account_id: AccountId) -> watch::Receiver<()> {
        let mut accounts = self.lock();
        let of_shard = &mut accounts[Shard::of(account_id).index()];
        let sender = of_shard.entry(account_id).or_default();
        let receiver = sender.subscribe();
        self.request_waits.notify_one();
        receiver
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets accounts without requests. Returns true if requests wait.
    fn some_wait(&self) -> bool {
        let mut accounts = self.lock();
        for of_shard in &mut *accounts {
            of_shard.retain(|_, sender| sender.receiver_count() > 0);
        }
        accounts.iter().any(|of_shard| !of_shard.is_empty())
    }

    fn some_wait_for(&self, shard: Shard) -> bool {
        !self.lock()[shard.index()].is_empty()
    }

    fn wake(&self, shard: Shard, accounts: &[AccountId]) {
        let waiting = self.lock();
        let of_shard = &waiting[shard.index()];
        for sender in accounts.iter().filter_map(|it| of_shard.get(it)) {
            sender.send_replace(());
        }
    }

    fn wake_all(&self, shard: Shard) {
        for sender in self.lock()[shard.index()].values() {
            sender.send_replace(());
        }
    }
}

/// Asks for new events while requests wait, until the shutdown. While the database fails, the requests wait in vain.
pub(super) async fn follow(
    activity: Arc<Activity>,
    pool: PgPool,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let follower = Follower {
        activity,
        pool,
        heads: None,
    };
    shutdown.run_until_cancelled(follower.run()).await;
    Ok(())
}

struct Follower {
    activity: Arc<Activity>,
    pool: PgPool,
    /// Positions up to which the requests were told; `None` before the first poll since a request waits.
    heads: Option<PerShard<Position>>,
}

impl Follower {
    async fn run(mut self) {
        let mut is_following = true;
        loop {
            self.until_a_request_waits().await;
            let polled = self.poll().await;
            // An outage is logged at its beginning only, not at every poll.
            if let Err(error) = &polled
                && is_following
            {
                let error = error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "cannot ask for new events; requests wait in vain until a retry succeeds"
                );
            }
            is_following = polled.is_ok();
            let pause = if is_following {
                POLL_INTERVAL
            } else {
                RETRY_DELAY
            };
            sleep(pause).await;
        }
    }

    async fn until_a_request_waits(&mut self) {
        while !self.activity.some_wait() {
            self.heads = None;
            self.activity.request_waits.notified().await;
        }
    }

    /// Tells the requests whose accounts have events since the last poll.
    async fn poll(&mut self) -> sqlx::Result<()> {
        let heads = try_read_in_time(|| log::heads(&self.pool)).await?;
        let Some(mut told) = self.heads else {
            // The requests may have read before the first poll, and events may have come between.
            Shard::all().for_each(|shard| self.activity.wake_all(shard));
            self.heads = Some(heads);
            return Ok(());
        };
        for shard in Shard::all() {
            let (after, head) = (told[shard.index()], heads[shard.index()]);
            self.tell(shard, after, head).await?;
            told[shard.index()] = head;
            self.heads = Some(told);
        }
        Ok(())
    }

    async fn tell(&self, shard: Shard, after: Position, head: Position) -> sqlx::Result<()> {
        if after == head || !self.activity.some_wait_for(shard) {
            return Ok(());
        }
        // A restored log can be shorter.
        if !(0..=POSITIONS_MAX).contains(&(head - after)) {
            self.activity.wake_all(shard);
            return Ok(());
        }
        let read = || accounts_between(&self.pool, shard, after, head);
        let accounts = try_read_in_time(read).await?;
        self.activity.wake(shard, &accounts);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn account(number: u128) -> AccountId {
        AccountId::from_uuid(Uuid::from_u128(number))
    }

    fn has_changed(receiver: &watch::Receiver<()>) -> bool {
        receiver.has_changed().unwrap()
    }

    #[test]
    fn only_requests_of_the_account_are_woken() {
        let activity = Activity::default();
        let [woken, other] = [1, 2].map(account);
        let requests = [woken, woken, other].map(|it| activity.of(it));
        activity.wake(Shard::of(woken), &[woken, account(3)]);
        assert_eq!(requests.each_ref().map(has_changed), [true, true, false]);
        // A later request reads what there is.
        assert!(!has_changed(&activity.of(woken)));
        Shard::all().for_each(|shard| activity.wake_all(shard));
        assert!(requests.iter().all(has_changed));
    }

    #[test]
    fn accounts_without_requests_are_forgotten() {
        let activity = Activity::default();
        let [first, second] = [1, 1].map(|it| activity.of(account(it)));
        drop(first);
        assert!(activity.some_wait());
        assert!(activity.some_wait_for(Shard::of(account(1))));
        drop(second);
        assert!(!activity.some_wait());
        assert!(!activity.some_wait_for(Shard::of(account(1))));
    }
}
