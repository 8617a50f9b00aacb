//! How far the read tables must be for an answer, and the wait until they are (contract §7).

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName};
use linkledger_core::{
    consistency::{self, ConsistencyToken},
    http::request::single,
    id::AccountId,
    problem::{Code, Problem},
    shard::Shard,
};
use tokio::time::{Instant, timeout_at};
use utoipa::IntoParams;

use crate::{
    checkpoint_watcher::{CheckpointWatcher, Projection},
    read_model::{Place, Seen},
};

/// Longest time that a request waits for the read tables.
const WAIT_MAX: Duration = Duration::from_secs(1);
const CONSISTENCY_TOKEN: HeaderName = HeaderName::from_static(consistency::HEADER);

/// The header as it is documented.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct TokenHeader {
    /// Of an earlier answer to this account: waits up to a second until that write can be read.
    #[param(
        rename = "Consistency-Token",
        required = false,
        format = "consistency-token"
    )]
    consistency_token: String,
}

/// The place that the caller has a token for; without one, nothing is asked for.
///
/// # Errors
/// `invalid_header` when the token is malformed, repeated, or another account's.
pub(crate) fn place_of_token(
    headers: &HeaderMap,
    account_id: AccountId,
    log_epoch: i32,
) -> Result<Place, Problem> {
    if !headers.contains_key(CONSISTENCY_TOKEN) {
        return Ok(Place::BEGINNING);
    }
    let token = single(headers, &CONSISTENCY_TOKEN)
        .and_then(|text| ConsistencyToken::decode(text, account_id))
        .ok_or_else(|| {
            let detail = "Send the Consistency-Token of an answer to this account as it is, once.";
            Problem::invalid_header("Consistency-Token", detail)
        })?;
    // A restore has lost what an older epoch's token stands for.
    if token.epoch < log_epoch {
        return Ok(Place::BEGINNING);
    }
    Ok(Place {
        epoch: token.epoch,
        position: token.position,
    })
}

/// One request's wait for one projection of one shard; all its parts share one deadline.
pub(crate) struct Wait<'a> {
    watcher: &'a CheckpointWatcher,
    projection: Projection,
    shard: Shard,
    deadline: Instant,
}

impl<'a> Wait<'a> {
    /// The time runs from here on.
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

    /// Reads, again when needed, until the snapshot contains everything up to `place`. If the
    /// account is parked there is nothing to wait for: an operator has to release it.
    ///
    /// # Errors
    /// `read_model_behind` when it does not in time, or that of `read`.
    pub(crate) async fn read_containing<T, F>(
        &self,
        place: Place,
        read: impl Fn() -> F,
    ) -> Result<Seen<T>, Problem>
    where
        F: Future<Output = Result<Seen<T>, Problem>>,
    {
        loop {
            let seen = read().await?;
            if place == Place::BEGINNING {
                return Ok(seen);
            }
            if seen.visibility.is_parked {
                return Err(read_model_behind());
            }
            if seen.visibility.checkpoint >= place {
                return Ok(seen);
            }
            let index = self.shard.index();
            let reached = self
                .watcher
                .wait_until(self.projection, |checkpoints| checkpoints[index] >= place);
            timeout_at(self.deadline, reached)
                .await
                .map_err(|_| read_model_behind())?;
        }
    }
}

/// The problem of something that exists but can't be shown yet.
pub(crate) fn read_model_behind() -> Problem {
    Problem::new(
        Code::ReadModelBehind,
        "It is stored, but can't be read yet; try again shortly.",
    )
    .retry_after(1)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use uuid::Uuid;

    use super::*;

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

    fn place(values: &[&str]) -> Result<Place, Code> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CONSISTENCY_TOKEN, HeaderValue::from_str(value).unwrap());
        }
        place_of_token(&headers, ACCOUNT, LOG_EPOCH).map_err(|problem| problem.code)
    }

    #[test]
    fn a_token_asks_for_its_place_unless_it_is_of_an_older_epoch() {
        let at = |epoch| {
            Ok(Place {
                epoch,
                position: 77,
            })
        };
        assert_eq!(place(&[]), Ok(Place::BEGINNING));
        assert_eq!(place(&[&token(LOG_EPOCH, 1)]), at(LOG_EPOCH));
        // Our own knowledge of the epoch may be a few seconds old.
        assert_eq!(place(&[&token(LOG_EPOCH + 1, 1)]), at(LOG_EPOCH + 1));
        assert_eq!(place(&[&token(LOG_EPOCH - 1, 1)]), Ok(Place::BEGINNING));
    }

    #[test]
    fn malformed_repeated_and_foreign_tokens_are_refused() {
        let own = token(LOG_EPOCH, 1);
        for values in [&[""][..], &["x"], &[&own, &own], &[&token(LOG_EPOCH, 2)]] {
            assert_eq!(place(values), Err(Code::InvalidHeader), "{values:?}");
        }
    }
}
