//! The create command, and its result, from which the answer is rendered.

use time::OffsetDateTime;
use uuid::Uuid;

use super::DecisionInput;
use crate::{
    credits::{CreditsCharged, CreditsEvent},
    envelope::{IdempotencyMark, Metadata, NewEvent},
    event::Event,
    field::FieldError,
    id::{AccountId, KeyId},
    json::Fingerprint,
    link::{LinkCreated, LinkDraft, LinkEvent},
    shard::Position,
};

/// Idempotency key that a client chose for one create. Unique within an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(pub Uuid);

/// Length of a UUID with hyphens.
const HYPHENATED_LENGTH: usize = 36;

impl IdempotencyKey {
    /// Parses the value of the header `Idempotency-Key`: a UUID, bare or as a quoted string (RFC
    /// 9651).
    pub fn parse(value: &str) -> Option<Self> {
        let quoted = value
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        Self::parse_uuid(quoted.unwrap_or(value))
    }

    /// Parses a UUID with hyphens, in any letter case.
    pub fn parse_uuid(text: &str) -> Option<Self> {
        // The check of the length excludes the other spellings of a UUID that the parser accepts.
        let key = Uuid::try_parse(text)
            .ok()
            .filter(|_| text.len() == HYPHENATED_LENGTH);
        key.map(Self)
    }

    /// Returns the form of the key that is stored with the event.
    pub fn stored(self) -> String {
        format!("create:{}", self.0.hyphenated())
    }
}

/// A create: `POST /v1/links`.
#[derive(Debug, Clone)]
pub struct KeyedCreate {
    /// Account that pays for the link.
    pub account_id: AccountId,
    /// API key of the request.
    pub key_id: KeyId,
    /// Idempotency key chosen by the client.
    pub key: IdempotencyKey,
    /// Fingerprint of the request's body.
    pub fingerprint: Fingerprint,
    /// Requested link, or the errors of the body. A used key is answered by its first result even
    /// if the body has errors.
    pub body: Result<LinkDraft, Vec<FieldError>>,
    /// Metadata of the request.
    pub metadata: Metadata,
}

impl KeyedCreate {
    /// Returns the events of the create, in the order of their positions. `account_version` is that of the charge.
    pub(super) fn events(
        &self,
        ids: &DecisionInput,
        settled: &CreateResult,
        account_version: i64,
    ) -> [NewEvent; 2] {
        let [link_event_id, charge_event_id, ..] = ids.event_ids;
        let link_created = NewEvent {
            event_id: link_event_id,
            account_id: self.account_id,
            version: 1,
            recorded_at: ids.now,
            event: Event::Link(LinkEvent::Created(settled.link.clone())),
            metadata: Metadata {
                renderer: Some(settled.renderer),
                ..self.metadata.clone()
            },
            idempotency: Some(IdempotencyMark {
                key: self.key.stored(),
                fingerprint: self.fingerprint,
            }),
        };
        let credits_charged = NewEvent {
            event_id: charge_event_id,
            account_id: self.account_id,
            version: account_version,
            recorded_at: ids.now,
            event: Event::Credits(CreditsEvent::Charged(settled.charge.clone())),
            metadata: self.metadata.clone(),
            idempotency: None,
        };
        [link_created, credits_charged]
    }
}

/// Result of a create: its answer is rendered from these fields, both at first and on replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateResult {
    /// Fingerprint of the body of the request that created the link.
    pub fingerprint: Fingerprint,
    /// Event about the link.
    pub link: LinkCreated,
    /// Event about the credits.
    pub charge: CreditsCharged,
    /// Time of the decision.
    pub created_at: OffsetDateTime,
    /// Version of the code that rendered the first answer.
    pub renderer: u8,
    /// Position of `CreditsCharged`, the later of the two events; 0 until they are appended.
    pub position: Position,
}
