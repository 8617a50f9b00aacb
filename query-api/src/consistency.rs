//! The wait of a request until the read tables contain the write that the caller's `Consistency-Token` names.
//! `docs/api.md#consistency` describes the guarantee.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName};
use linkledger_core::{
    consistency::{self, ConsistencyToken},
    id::AccountId,
    projection::Projection,
    shard::Shard,
};
use linkledger_event_store::log::PerShard;
use linkledger_http::{problem::Problem, request::single};
use tokio::time::{Instant, timeout_at};
use utoipa::IntoParams;

use crate::{
    checkpoint_watcher::CheckpointWatcher,
    read_model::{LogPosition, SnapshotRead},
};

/// Timeout of a request that waits for the read tables.
const WAIT_MAX: Duration = Duration::from_secs(1);
const CONSISTENCY_TOKEN: HeaderName = HeaderName::from_static(consistency::HEADER);

/// The header in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct TokenHeader {
    /// Token of an earlier answer to this account. The request waits up to one second until that
    /// write can be read. A history and a feed of events always have the write, and statistics of clicks do not
    /// wait: for all three the token is only checked.
    #[param(
        rename = "Consistency-Token",
        required = false,
        format = "consistency-token"
    )]
    consistency_token: String,
}

/// Returns the position that the caller's token names; [`LogPosition::BEGINNING`] without a token.
///
/// # Errors
/// Returns `invalid_header` if the token is malformed, repeated, or of another account.
pub(crate) fn position_of_consistency_token(
    headers: &HeaderMap,
    account_id: AccountId,
    log_epoch: i32,
) -> Result<LogPosition, Problem> {
    if !headers.contains_key(CONSISTENCY_TOKEN) {
        return Ok(LogPosition::BEGINNING);
    }
    let token = single(headers, &CONSISTENCY_TOKEN)
        .and_then(|text| ConsistencyToken::decode(text, account_id))
        .ok_or_else(|| {
            let detail = "Send one Consistency-Token, unchanged, from an answer to this account.";
            Problem::invalid_header("Consistency-Token", detail)
        })?;
    // A restore has lost the write that a token of an older epoch names.
    if token.epoch < log_epoch {
        return Ok(LogPosition::BEGINNING);
    }
    Ok(LogPosition {
        epoch: token.epoch,
        position: token.position,
    })
}

/// Wait of one request for the projection that it reads, of one shard. All reads of the request share one deadline.
pub(crate) struct VisibilityWait<'a> {
    watcher: &'a CheckpointWatcher,
    projection: Projection,
    shard: Shard,
    deadline: Instant,
}

impl<'a> VisibilityWait<'a> {
    /// Starts the timeout.
    pub(crate) fn begin(
        watcher: &'a CheckpointWatcher,
        projection: Projection,
        shard: Shard,
    ) -> Self {
        Self {
            watcher,
            projection,
            shard,
            deadline: Instant::now() + WAIT_MAX,
        }
    }

    /// Repeats `read` until its snapshot contains all events up to `position`. For a parked account
    /// the wait would be in vain: an operator has to release the account.
    ///
    /// # Errors
    /// Returns `read_model_behind` on timeout and for a parked account, or the error of `read`.
    pub(crate) async fn read_containing<T, F>(
        &self,
        position: LogPosition,
        read: impl Fn() -> F,
    ) -> Result<SnapshotRead<T>, Problem>
    where
        F: Future<Output = Result<SnapshotRead<T>, Problem>>,
    {
        loop {
            let snapshot = read().await?;
            if snapshot.visibility.contains(position) {
                return Ok(snapshot);
            }
            if snapshot.visibility.is_parked {
                return Err(Problem::read_model_behind());
            }
            let index = self.shard.index();
            let reached = async {
                let has_reached =
                    |checkpoints: &PerShard<LogPosition>| checkpoints[index] >= position;
                self.watcher.wait_until(self.projection, has_reached).await;
            };
            timeout_at(self.deadline, reached)
                .await
                .map_err(|_| Problem::read_model_behind())?;
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use uuid::Uuid;

    use super::*;
    use linkledger_http::problem::Code;

    const ACCOUNT: AccountId = AccountId::from_uuid(Uuid::from_u128(1));
    const LOG_EPOCH: i32 = 3;

    fn token(epoch: i32, account: u128) -> String {
        let account_id = AccountId::from_uuid(Uuid::from_u128(account));
        let position = 77;
        ConsistencyToken {
            epoch,
            account_id,
            position,
        }
        .encode()
    }

    fn position(values: &[&str]) -> Result<LogPosition, Code> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CONSISTENCY_TOKEN, HeaderValue::from_str(value).unwrap());
        }
        position_of_consistency_token(&headers, ACCOUNT, LOG_EPOCH).map_err(|problem| problem.code)
    }

    #[test]
    fn token_of_older_epoch_is_ignored() {
        let at = |epoch| {
            Ok(LogPosition {
                epoch,
                position: 77,
            })
        };
        assert_eq!(position(&[]), Ok(LogPosition::BEGINNING));
        assert_eq!(position(&[&token(LOG_EPOCH, 1)]), at(LOG_EPOCH));
        // The epoch that query-api knows may be stale for some seconds after a restore.
        assert_eq!(position(&[&token(LOG_EPOCH + 1, 1)]), at(LOG_EPOCH + 1));
        let beginning = Ok(LogPosition::BEGINNING);
        assert_eq!(position(&[&token(LOG_EPOCH - 1, 1)]), beginning);
    }

    #[test]
    fn malformed_repeated_and_foreign_tokens_are_rejected() {
        let own = token(LOG_EPOCH, 1);
        for values in [&[""][..], &["x"], &[&own, &own], &[&token(LOG_EPOCH, 2)]] {
            assert_eq!(position(values), Err(Code::InvalidHeader), "{values:?}");
        }
    }
}
