//! Reads the body of a request: one JSON object.
//!
//! A body that arrives slowly holds memory. So bodies in reading have shares by account, and a body for which there is
//! no room is refused before it is read.

use axum::body::{Body, Bytes, HttpBody as _};
use linkledger_core::{
    http::{
        account_shares::{AccountShares, overloaded},
        request::BATCH_BODY_LENGTH_MAX,
    },
    id::AccountId,
    json::{JsonError, JsonObject},
    problem::{Code, Problem},
};

/// Memory for the bodies of one account in reading: 16 of the longest batches.
const ACCOUNT_BYTES_MAX: usize = 16 * BATCH_BODY_LENGTH_MAX;
/// Memory for the bodies of all accounts in reading, 64 MiB.
const BYTES_MAX: usize = 16 * ACCOUNT_BYTES_MAX;
/// Length up to which a body needs no share: its connection has more memory anyway. Nearly every create is shorter,
/// and an account may send any number at a time.
const FREE_LENGTH_MAX: usize = 4 * 1024;

/// Memory for the bodies in reading.
pub struct BodyRoom(AccountShares);

impl Default for BodyRoom {
    fn default() -> Self {
        Self(AccountShares::new(ACCOUNT_BYTES_MAX, BYTES_MAX))
    }
}

impl BodyRoom {
    /// Reads the whole body, of at most `length_max` bytes. The share is that of the announced length; of the longest
    /// body, if no length is announced.
    ///
    /// # Errors
    /// Returns `overloaded` if other bodies leave no room, `content_too_large` or `malformed_json`.
    pub(super) async fn read(
        &self,
        account_id: AccountId,
        body: Body,
        length_max: usize,
    ) -> Result<Bytes, Problem> {
        let announced = body.size_hint().upper();
        let announced = announced.and_then(|length| usize::try_from(length).ok());
        let length = announced.map_or(length_max, |length| length.min(length_max));
        let _share = if length > FREE_LENGTH_MAX {
            let units = u32::try_from(length).unwrap_or(u32::MAX);
            let share = self.0.try_acquire(account_id, units);
            let detail = "Too many bodies are being read: nothing was done; retry with fewer requests at a time.";
            Some(share.ok_or_else(|| overloaded(detail))?)
        } else {
            None
        };
        let bytes = axum::body::to_bytes(body, length_max).await;
        bytes.map_err(|error| {
            if is_length_limit(&error) {
                return Problem::content_too_large(length_max);
            }
            let detail = "The body ended before it was complete.";
            Problem::new(Code::MalformedJson, detail)
        })
    }
}

/// Parses the bytes of a body as a JSON object.
///
/// # Errors
/// Returns `malformed_json` or `body_not_object`.
pub(super) fn parse_object(bytes: &[u8]) -> Result<JsonObject, Problem> {
    JsonObject::parse(bytes).map_err(|error| match error {
        JsonError::Malformed(place) => Problem::malformed_json(place),
        JsonError::Array => Problem::body_is_array(),
        JsonError::NotAnObject => Problem::body_not_object(),
    })
}

fn is_length_limit(error: &axum::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        source = error.source();
    }
    false
}
