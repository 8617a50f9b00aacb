//! A create as it waits for its batch, and all that its answer is rendered from.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    credits::CreditsCharged,
    envelope::Metadata,
    field::FieldError,
    id::AccountId,
    json::Fingerprint,
    link::{Destination, LinkCreated, Slug},
    shard::Position,
};

/// The caller's key of one create; scope: the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(pub Uuid);

/// Length of a UUID with its hyphens.
const HYPHENATED_LENGTH: usize = 36;

impl IdempotencyKey {
    /// The key of a header's value: a UUID, bare or as a quoted string of RFC 9651.
    pub fn parse(value: &str) -> Option<Self> {
        let quoted = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        let text = quoted.unwrap_or(value);
        // The length leaves out the other spellings that the parser knows.
        let key = Uuid::try_parse(text)
            .ok()
            .filter(|_| text.len() == HYPHENATED_LENGTH);
        key.map(Self)
    }

    /// The form in which the key stands on the event.
    pub fn stored(self) -> String {
        format!("create:{}", self.0.hyphenated())
    }
}

/// `POST /v1/links`.
#[derive(Debug, Clone)]
pub struct KeyedCreate {
    /// Who pays.
    pub account_id: AccountId,
    /// The caller's key.
    pub key: IdempotencyKey,
    /// Of the request's body.
    pub fingerprint: Fingerprint,
    /// The link that is asked for, or what is wrong with the body: a used key is answered all
    /// the same.
    pub body: Result<LinkDraft, Vec<FieldError>>,
    /// Circumstances of the request.
    pub metadata: Metadata,
}

/// The link that a valid body asks for.
#[derive(Debug, Clone)]
pub struct LinkDraft {
    /// The slug that the caller chose.
    pub slug: Option<Slug>,
    /// Where the link shall point to.
    pub destination: Destination,
}

/// A create that had its effect: all that its answer, now or on replay, is rendered from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledCreate {
    /// Of the body that had the effect.
    pub fingerprint: Fingerprint,
    /// The fact about the link.
    pub link: LinkCreated,
    /// The fact about the credits.
    pub charge: CreditsCharged,
    /// When both were decided.
    pub created_at: OffsetDateTime,
    /// Which renderer wrote the first answer.
    pub renderer: u8,
    /// Where `CreditsCharged`, the later of the two, stands.
    pub position: Position,
}
