//! Records the last use of API keys in batches. Never delays a request, and never makes one fail.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sqlx::PgPool;
use time::OffsetDateTime;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use linkledger_core::id::KeyId;
use linkledger_event_store::{
    api_keys,
    time_limit::{ANSWER_TIME_MAX, within},
};

/// Time between two batches: the maximal delay of the column `last_used_at`, and the
/// maximal loss by a crash.
const WRITE_INTERVAL: Duration = Duration::from_mins(1);
/// Maximal number of keys whose use is kept until the next batch. Uses of further keys are dropped.
const PENDING_MAX: usize = 10_000;

/// Uses of keys that are not written yet.
pub(super) struct KeyUsage {
    pool: PgPool,
    pending: Mutex<HashMap<KeyId, OffsetDateTime>>,
}

impl KeyUsage {
    /// Returns an empty record.
    pub(super) fn new(pool: PgPool) -> Self {
        Self {
            pool,
            pending: Mutex::default(),
        }
    }

    /// Records that the key was used.
    pub(super) fn record(&self, key_id: KeyId, at: OffsetDateTime) {
        let mut pending = self.pending();
        if pending.len() < PENDING_MAX || pending.contains_key(&key_id) {
            pending.insert(key_id, at);
        }
    }

    /// Writes pending uses once per interval, and a last time after the last request. A failed
    /// batch is logged and retried with the next batch.
    pub(super) async fn run(&self, drained: CancellationToken) {
        let mut is_due = interval(WRITE_INTERVAL);
        is_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !drained.is_cancelled() {
            tokio::select! {
                _ = is_due.tick() => {}
                () = drained.cancelled() => {}
            }
            self.write().await;
        }
    }

    async fn write(&self) {
        let uses = std::mem::take(&mut *self.pending());
        if uses.is_empty() {
            return;
        }
        let writing = api_keys::record_uses(&self.pool, &uses);
        if let Err(error) = within(ANSWER_TIME_MAX, writing).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "cannot write the last uses of API keys; retrying with the next batch"
            );
            let mut pending = self.pending();
            for (key_id, at) in uses {
                pending.entry(key_id).or_insert(at);
            }
        }
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<KeyId, OffsetDateTime>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
