//! Shares of the accounts in what all requests of a process have in common, such as sessions and drawn codes: a busy
//! account waits for itself, and leaves room for others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::problem::{Code, Problem};
use linkledger_core::id::AccountId;

/// Room for the requests of a process, in units of the caller, such as reads.
pub struct PerAccountLimit {
    /// Units that one account may have at a time.
    account_max: usize,
    /// Units that all accounts may have at a time. Taken after the account's own units, so that the requests of one
    /// account wait for each other, and not in front of those of other accounts.
    all: Arc<Semaphore>,
    by_account: Arc<Accounts>,
}

/// Unit of an account, until it is dropped.
pub struct AccountShare {
    _own: AccountPermit,
    _of_all: OwnedSemaphorePermit,
}

/// Free units of each account with requests that have units, or wait.
#[derive(Default)]
struct Accounts(Mutex<HashMap<AccountId, Arc<Semaphore>>>);

/// One request of an account, with or without a unit.
struct AccountPermit {
    accounts: Arc<Accounts>,
    account_id: AccountId,
    /// Always set, but while it is dropped.
    semaphore: Option<Arc<Semaphore>>,
    unit: Option<OwnedSemaphorePermit>,
}

impl PerAccountLimit {
    /// Returns shares: of one account, and of all accounts together. Each is 1 at least.
    pub fn new(account_max: usize, all_max: usize) -> Self {
        Self {
            account_max: account_max.max(1),
            all: Arc::new(Semaphore::new(all_max.max(1))),
            by_account: Arc::default(),
        }
    }

    /// Waits until account and process have a free unit, and takes it. The oldest request of an account comes first.
    ///
    /// # Errors
    /// Returns `overloaded` with the detail if other requests have the units for the whole time.
    pub async fn acquire_in_time(
        &self,
        account_id: AccountId,
        time_max: Duration,
        detail: &'static str,
    ) -> Result<AccountShare, Problem> {
        let share = timeout(time_max, self.acquire(account_id)).await;
        share.ok().flatten().ok_or_else(|| overloaded(detail))
    }

    /// Waits until account and process have a free unit, and takes it. No semaphore is ever closed, so there always is
    /// one in the end.
    pub async fn acquire(&self, account_id: AccountId) -> Option<AccountShare> {
        let mut own = self.request_of(account_id);
        let semaphore = Arc::clone(own.semaphore.as_ref()?);
        own.unit = Some(semaphore.acquire_owned().await.ok()?);
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(AccountShare {
            _own: own,
            _of_all: of_all,
        })
    }

    fn request_of(&self, account_id: AccountId) -> AccountPermit {
        let mut accounts = self.by_account.lock();
        let semaphore = accounts.entry(account_id);
        let semaphore = semaphore.or_insert_with(|| Arc::new(Semaphore::new(self.account_max)));
        AccountPermit {
            semaphore: Some(Arc::clone(semaphore)),
            accounts: Arc::clone(&self.by_account),
            account_id,
            unit: None,
        }
    }
}

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<AccountId, Arc<Semaphore>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AccountPermit {
    /// Forgets the account with its last request.
    fn drop(&mut self) {
        self.unit = None;
        let mut accounts = self.accounts.lock();
        self.semaphore = None;
        let is_last = |semaphore: &Arc<Semaphore>| Arc::strong_count(semaphore) == 1;
        if accounts.get(&self.account_id).is_some_and(is_last) {
            accounts.remove(&self.account_id);
        }
    }
}

/// Returns the problem of a request that takes too long, or for which others leave no room.
pub fn overloaded(detail: &'static str) -> Problem {
    Problem::new(Code::Overloaded, detail).retry_after(1)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    fn account(number: u128) -> AccountId {
        AccountId::from_uuid(Uuid::from_u128(number))
    }

    #[test]
    fn account_at_its_share_delays_only_itself() {
        let shares = PerAccountLimit::new(2, 3);
        let acquire = |number| shares.acquire(account(number)).now_or_never().flatten();
        let first = acquire(1).unwrap();
        let second = acquire(1).unwrap();
        assert!(acquire(1).is_none());
        let other = acquire(2).unwrap();
        assert!(acquire(3).is_none(), "no room for all");
        drop(first);
        assert!(acquire(1).is_some());
        drop((second, other));
    }

    #[test]
    fn waiting_account_is_not_in_front_of_others() {
        let shares = PerAccountLimit::new(1, 2);
        let held = shares.acquire(account(1)).now_or_never().flatten();
        let mut waiting: Vec<_> = (0..10)
            .map(|_| Box::pin(shares.acquire(account(1))))
            .collect();
        for request in &mut waiting {
            assert!(request.now_or_never().is_none());
        }
        let other = shares.acquire(account(2)).now_or_never();
        assert!(other.flatten().is_some());
        drop(held);
    }

    #[test]
    fn accounts_without_requests_are_forgotten() {
        let shares = PerAccountLimit::new(1, 1);
        for number in 0..100 {
            let held = shares.acquire(account(number)).now_or_never().flatten();
            assert!(held.is_some());
            let waiting = shares.acquire(account(number)).now_or_never();
            assert!(waiting.is_none());
            assert_eq!(shares.by_account.lock().len(), 1);
            drop(held);
        }
        assert!(shares.by_account.lock().is_empty());
    }
}
