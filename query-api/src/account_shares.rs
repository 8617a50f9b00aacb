//! Shares of the sessions for costly reads: reads of one account do not delay those of others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use linkledger_core::{
    id::AccountId,
    problem::{Code, Problem},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Longest wait for other reads of the account.
const SHARE_TIME_MAX: Duration = Duration::from_secs(4);

/// Number of reads that an account may have at a time.
pub(crate) struct AccountShares {
    reads_max: usize,
    /// Accounts with reads, or with requests that wait.
    by_account: Mutex<HashMap<AccountId, Arc<Semaphore>>>,
}

impl AccountShares {
    pub(crate) fn new(reads_max: usize) -> Self {
        Self {
            reads_max: reads_max.max(1),
            by_account: Mutex::default(),
        }
    }

    /// Waits until the account has a free read, and takes it, until the permit is dropped.
    ///
    /// # Errors
    /// Returns `overloaded` with the detail if other reads of the account go on for 4 s.
    pub(crate) async fn acquire_in_time(
        &self,
        account_id: AccountId,
        detail: &'static str,
    ) -> Result<OwnedSemaphorePermit, Problem> {
        let permit = timeout(SHARE_TIME_MAX, self.acquire(account_id)).await;
        permit.ok().flatten().ok_or_else(|| overloaded(detail))
    }

    /// Waits until the account has a free read, and takes it. The oldest request comes first.
    async fn acquire(&self, account_id: AccountId) -> Option<OwnedSemaphorePermit> {
        let reads = self.reads_of(account_id);
        // The semaphore is never closed.
        reads.acquire_owned().await.ok()
    }

    fn reads_of(&self, account_id: AccountId) -> Arc<Semaphore> {
        let by_account = self.by_account.lock();
        let mut by_account = by_account.unwrap_or_else(PoisonError::into_inner);
        by_account.retain(|_, reads| Arc::strong_count(reads) > 1);
        let reads = by_account.entry(account_id);
        Arc::clone(reads.or_insert_with(|| Arc::new(Semaphore::new(self.reads_max))))
    }
}

/// Returns the problem of a read that takes too long, or that waits too long for others.
pub(crate) fn overloaded(detail: &'static str) -> Problem {
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
        let shares = AccountShares::new(2);
        let acquire = |number| shares.acquire(account(number)).now_or_never().flatten();
        let first = acquire(1).unwrap();
        let second = acquire(1).unwrap();
        assert!(acquire(1).is_none());
        let other = acquire(2).unwrap();
        drop(first);
        assert!(acquire(1).is_some());
        drop((second, other));
    }

    #[test]
    fn accounts_without_reads_are_forgotten() {
        let shares = AccountShares::new(1);
        for number in 0..100 {
            let read = shares.acquire(account(number)).now_or_never().flatten();
            assert!(read.is_some());
        }
        assert_eq!(shares.by_account.lock().unwrap().len(), 1);
    }
}
