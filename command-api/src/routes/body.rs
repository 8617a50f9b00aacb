//! Reads the body of a request: one JSON object.
//!
//! A body that arrives slowly holds memory. So bodies in reading have shares by account, and a body for which there is
//! no room is refused after its first bytes.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use axum::body::{Body, HttpBody as _};
use http_body_util::BodyExt as _;
use linkledger_core::{
    fair_share::FairShare,
    id::AccountId,
    json::{JsonError, JsonObject},
};
use linkledger_http::{per_account_limit::overloaded, problem::Problem};

/// Memory for the bodies of all accounts in reading, 64 MiB.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// Part of it that an account may have: alone 4 MiB, which is 16 of the longest batches.
const ACCOUNT_SHARE: FairShare = FairShare { own: 1, free: 15 };
/// Length up to which a body needs no share: its connection has more memory anyway. Nearly every create is shorter,
/// and an account may send any number at a time.
const FREE_LENGTH_MAX: usize = 4 * 1024;

/// Memory for the bodies in reading.
#[derive(Default)]
pub struct BodyRoom(Mutex<Taken>);

/// Bytes that bodies in reading have.
#[derive(Default)]
struct Taken {
    bytes: usize,
    by_account: HashMap<AccountId, usize>,
}

/// Bytes for the body of an account, until it is dropped.
struct BodyShare<'a> {
    room: &'a BodyRoom,
    account_id: AccountId,
    bytes: usize,
}

impl BodyRoom {
    /// Reads the whole body, of at most `length_max` bytes. The share is that of the announced length; of the longest
    /// body, if no length is announced.
    ///
    /// # Errors
    /// Returns `overloaded` if other bodies leave no room, `content_too_large` or `malformed_json`.
    pub(crate) async fn read(
        &self,
        account_id: AccountId,
        mut body: Body,
        length_max: usize,
    ) -> Result<Vec<u8>, Problem> {
        let announced = body.size_hint().upper();
        let announced = announced.and_then(|length| usize::try_from(length).ok());
        let share_length = announced.map_or(length_max, |length| length.min(length_max));
        let mut share = None;
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            // Trailers are ignored.
            let Ok(data) = frame.map_err(|_| Problem::body_incomplete())?.into_data() else {
                continue;
            };
            let length = bytes.len() + data.len();
            if length > length_max {
                return Err(Problem::content_too_large(length_max));
            }
            if length > FREE_LENGTH_MAX && share.is_none() {
                share = Some(self.take(account_id, share_length)?);
                bytes.reserve_exact(share_length.saturating_sub(bytes.len()));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    }

    fn take(&self, account_id: AccountId, bytes: usize) -> Result<BodyShare<'_>, Problem> {
        let mut taken = self.lock();
        let own = taken.by_account.get(&account_id).copied().unwrap_or(0);
        if !ACCOUNT_SHARE.may_add(own, bytes, BYTES_MAX - taken.bytes) {
            let detail = "Too many bodies are being read: nothing was done; retry with fewer requests at a time.";
            return Err(overloaded(detail));
        }
        taken.bytes += bytes;
        taken.by_account.insert(account_id, own + bytes);
        Ok(BodyShare {
            room: self,
            account_id,
            bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BodyShare<'_> {
    /// Forgets the account with its last body.
    fn drop(&mut self) {
        let mut taken = self.room.lock();
        taken.bytes -= self.bytes;
        if let Some(own) = taken.by_account.get_mut(&self.account_id) {
            *own -= self.bytes;
            if *own == 0 {
                taken.by_account.remove(&self.account_id);
            }
        }
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

#[cfg(test)]
mod tests {
    use linkledger_http::{problem::Code, request::AcceptedBody};
    use uuid::Uuid;

    use super::*;

    const BATCH_LENGTH_MAX: usize = AcceptedBody::BATCH.length_max;

    fn account(number: u128) -> AccountId {
        AccountId::from_uuid(Uuid::from_u128(number))
    }

    /// Takes the longest batches of an account until one is refused.
    fn flood(room: &BodyRoom, number: u128) -> Vec<BodyShare<'_>> {
        let take = || room.take(account(number), BATCH_LENGTH_MAX).ok();
        std::iter::from_fn(take).collect()
    }

    #[test]
    fn account_alone_has_room_for_sixteen_batches() {
        let room = BodyRoom::default();
        let mut shares = flood(&room, 1);
        assert_eq!(shares.len(), 16);
        assert!(room.take(account(1), FREE_LENGTH_MAX + 1).is_err());
        shares.pop();
        assert_eq!(flood(&room, 1).len(), 1);
    }

    #[test]
    fn newcomer_finds_room_beside_many_floods() {
        let room = BodyRoom::default();
        let floods: Vec<_> = (0..32).map(|number| flood(&room, number)).collect();
        assert!(floods.iter().all(|flood| !flood.is_empty()));
        assert!(!flood(&room, 32).is_empty());
        drop(floods);
        assert_eq!(flood(&room, 32).len(), 16);
        let taken = room.lock();
        assert!(taken.by_account.is_empty() && taken.bytes == 0);
    }

    #[tokio::test]
    async fn short_body_without_length_needs_no_room() {
        let room = BodyRoom::default();
        let _flood = flood(&room, 1);
        let read = |length: usize| {
            let chunks = [" ".repeat(length - 1), " ".to_owned()];
            let chunks = chunks.map(Ok::<_, std::convert::Infallible>);
            let body = Body::from_stream(futures::stream::iter(chunks));
            room.read(account(1), body, BATCH_LENGTH_MAX)
        };
        assert_eq!(
            read(FREE_LENGTH_MAX).await.map(|bytes| bytes.len()),
            Ok(FREE_LENGTH_MAX)
        );
        assert_eq!(
            read(FREE_LENGTH_MAX + 1)
                .await
                .map_err(|problem| problem.code),
            Err(Code::Overloaded)
        );
    }
}
