//! Tells readers that wait for events of an account, or of all accounts, that there are some. One task asks the log for
//! all of them, while any waits.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use linkledger_core::{
    id::AccountId,
    shard::{Position, Shard},
};
use linkledger_event_store::{
    log::{self, PerShard, feed::accounts_between},
    time_limit::{READ_TIME_MAX, read_on_live_session, within},
};
use sqlx::PgPool;
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

/// Interval of asking for new events while a reader waits.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Delay after a failed poll.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Positions of a shard whose accounts one statement looks at. After more, every reader of the shard looks itself.
const POSITIONS_MAX: i64 = 4_000;

/// Accounts of waiting readers. Each reader has a receiver.
type Waiting = PerShard<HashMap<AccountId, watch::Sender<()>>>;

/// Readers that wait for events.
#[derive(Default)]
pub struct LogActivity {
    accounts: Mutex<Waiting>,
    all_accounts: watch::Sender<()>,
    reader_waits: Notify,
}

impl LogActivity {
    /// Returns a receiver that changes after every event of the account that a read after this call may lack. It may
    /// change without such an event.
    pub fn of(&self, account_id: AccountId) -> watch::Receiver<()> {
        let mut accounts = self.lock();
        let of_shard = &mut accounts[Shard::of(account_id).index()];
        let sender = of_shard.entry(account_id).or_default();
        let receiver = sender.subscribe();
        self.reader_waits.notify_one();
        receiver
    }

    /// Returns a receiver like [`Self::of`], for the events of all accounts.
    pub fn of_all(&self) -> watch::Receiver<()> {
        let receiver = self.all_accounts.subscribe();
        self.reader_waits.notify_one();
        receiver
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets accounts without readers. Returns true if readers wait.
    fn some_wait(&self) -> bool {
        let mut accounts = self.lock();
        for of_shard in &mut *accounts {
            of_shard.retain(|_, sender| sender.receiver_count() > 0);
        }
        let some_wait = accounts.iter().any(|of_shard| !of_shard.is_empty());
        some_wait || self.all_accounts.receiver_count() > 0
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

    fn wake_shard(&self, shard: Shard) {
        for sender in self.lock()[shard.index()].values() {
            sender.send_replace(());
        }
    }

    fn wake_readers_of_all(&self) {
        self.all_accounts.send_replace(());
    }
}

/// Asks for new events while readers wait, until the shutdown. While the database fails, the readers wait in vain.
///
/// # Errors
/// Never: a failed poll is logged and retried.
pub async fn follow(
    activity: Arc<LogActivity>,
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
    activity: Arc<LogActivity>,
    pool: PgPool,
    /// Positions up to which the readers were told; `None` before the first poll since a reader waits.
    heads: Option<PerShard<Position>>,
}

impl Follower {
    async fn run(mut self) {
        let mut is_following = true;
        loop {
            self.until_a_reader_waits().await;
            let polled = self.poll().await;
            // An outage is logged at its beginning only, not at every poll.
            if let Err(error) = &polled
                && is_following
            {
                let error = error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "cannot ask for new events; readers wait in vain until a retry succeeds"
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

    async fn until_a_reader_waits(&mut self) {
        while !self.activity.some_wait() {
            self.heads = None;
            self.activity.reader_waits.notified().await;
        }
    }

    /// Tells the readers whose accounts have events since the last poll.
    async fn poll(&mut self) -> sqlx::Result<()> {
        let heads = read_in_time(|| log::heads(&self.pool)).await?;
        let Some(mut told) = self.heads else {
            // The readers may have read before the first poll, and events may have come between.
            Shard::all().for_each(|shard| self.activity.wake_shard(shard));
            self.activity.wake_readers_of_all();
            self.heads = Some(heads);
            return Ok(());
        };
        if told != heads {
            self.activity.wake_readers_of_all();
        }
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
            self.activity.wake_shard(shard);
            return Ok(());
        }
        let read = || accounts_between(&self.pool, shard, after, head);
        let accounts = read_in_time(read).await?;
        self.activity.wake(shard, &accounts);
        Ok(())
    }
}

async fn read_in_time<T, F: Future<Output = sqlx::Result<T>>>(
    read: impl FnMut() -> F,
) -> sqlx::Result<T> {
    within(READ_TIME_MAX, read_on_live_session(read)).await
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
    fn only_readers_of_the_account_are_woken() {
        let activity = LogActivity::default();
        let [woken, other] = [1, 2].map(account);
        let readers = [woken, woken, other].map(|it| activity.of(it));
        activity.wake(Shard::of(woken), &[woken, account(3)]);
        assert_eq!(readers.each_ref().map(has_changed), [true, true, false]);
        // A later reader reads what there is.
        assert!(!has_changed(&activity.of(woken)));
        Shard::all().for_each(|shard| activity.wake_shard(shard));
        assert!(readers.iter().all(has_changed));
    }

    #[test]
    fn accounts_without_readers_are_forgotten() {
        let activity = LogActivity::default();
        let [first, second] = [1, 1].map(|it| activity.of(account(it)));
        drop(first);
        assert!(activity.some_wait());
        assert!(activity.some_wait_for(Shard::of(account(1))));
        drop(second);
        assert!(!activity.some_wait());
        assert!(!activity.some_wait_for(Shard::of(account(1))));
    }

    #[test]
    fn reader_of_all_accounts_waits_for_no_account() {
        let activity = LogActivity::default();
        let of_all = activity.of_all();
        assert!(activity.some_wait());
        assert!(Shard::all().all(|shard| !activity.some_wait_for(shard)));
        assert!(!has_changed(&of_all));
        activity.wake_readers_of_all();
        assert!(has_changed(&of_all));
        drop(of_all);
        assert!(!activity.some_wait());
    }
}
