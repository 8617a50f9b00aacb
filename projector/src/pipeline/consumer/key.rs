//! Key of the records, which the database of the log has.

use std::time::Duration;

use linkledger_core::{
    cloud_event::RecordKey,
    event_store::{log_meta, time_limit::within},
};
use sqlx::PgPool;

/// Timeout for reading the key. Meanwhile records wait.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Key of the records, once it was read.
pub(super) struct KnownKey {
    log: PgPool,
    key: Option<RecordKey>,
}

impl KnownKey {
    pub(super) fn new(log: PgPool) -> Self {
        Self { log, key: None }
    }

    /// Returns the key; `None` if the database fails: then records are as if they were missing.
    pub(super) async fn get(&mut self) -> Option<RecordKey> {
        if self.key.is_none() {
            match within(READ_TIMEOUT, log_meta::record_key(&self.log)).await {
                Ok(key) => self.key = Some(key),
                Err(error) => tracing::warn!(
                    %error,
                    "cannot read the key of the records: the log is read instead"
                ),
            }
        }
        self.key.clone()
    }

    /// Reads the key again before the next record.
    pub(super) fn forget(&mut self) {
        self.key = None;
    }
}
