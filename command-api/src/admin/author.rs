//! Requests that change something: their authors and idempotency keys.

use linkledger_core::{
    clock::{Clock, new_uuid},
    envelope::{IdempotencyMark, Metadata, OPERATOR},
    id::AdminKeyId,
    json::JsonObject,
};
use linkledger_http::request::{ADMIN_KEY_LENGTH_MAX, RequestContext};
use serde_json::{Map, Value};
use sqlx::PgPool;

/// Author of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Author {
    /// A person at the command line, by the name given or derived from user and host.
    Operator(String),
    /// A client of the admin API.
    AdminKey(AdminKeyId),
}

impl Author {
    /// Returns the metadata of the author's events, without the request's id and trace.
    pub fn metadata(&self) -> Metadata {
        match self {
            Self::Operator(name) => Metadata {
                actor: Some(OPERATOR.to_owned()),
                operator: Some(name.clone()),
                ..Metadata::default()
            },
            Self::AdminKey(key_id) => Metadata {
                actor: Some(key_id.to_string()),
                ..Metadata::default()
            },
        }
    }
}

/// Circumstances of a request that changes something.
#[derive(Clone)]
pub struct Request<'a> {
    /// Sessions of kind `Writer` on the log.
    pub pool: &'a PgPool,
    /// Clock of the decision.
    pub clock: &'a dyn Clock,
    /// Author, id and trace of the request.
    pub metadata: Metadata,
    /// Key under which the request takes effect once; without one, each retry takes effect again.
    pub idempotency_key: Option<String>,
}

linkledger_core::named_enum! {
    /// Kind of an effect with an idempotency key: keys of different kinds are different keys.
    pub enum EffectKind {
        /// Creation of an account.
        Account = "account",
        /// Suspension of an account.
        Suspend = "suspend",
        /// Resumption of an account.
        Resume = "resume",
        /// Issue of an API key.
        Key = "key",
        /// Rotation of an API key.
        Rotate = "rotate",
        /// Grant of credits.
        Grant = "grant",
        /// Correction of a balance by an amount.
        Adjust = "adjust",
        /// Setting of a balance.
        Balance = "balance",
        /// Refund of a charge.
        Refund = "refund",
        /// Revocation of a grant.
        Revocation = "revocation",
        /// Disabling of a link.
        Disable = "disable",
        /// Enabling of a link.
        Enable = "enable",
        /// Creation of a webhook.
        Webhook = "webhook",
        /// Rotation of the secret of a webhook.
        RotateSecret = "rotate_secret",
    }
}

impl EffectKind {
    /// Returns an idempotency key of this kind as the log stores it.
    pub(crate) fn stored_key(self, idempotency_key: &str) -> String {
        format!("{self}:{idempotency_key}")
    }
}

impl<'a> Request<'a> {
    /// Returns a request without an idempotency key.
    pub fn new(pool: &'a PgPool, clock: &'a dyn Clock, author: &Author) -> Self {
        Self {
            pool,
            clock,
            metadata: author.metadata(),
            idempotency_key: None,
        }
    }

    /// Returns the request with id and trace of an HTTP request.
    #[must_use]
    pub(crate) fn of_http(mut self, context: &RequestContext) -> Self {
        self.metadata.request_id = Some(context.request_id().to_owned());
        self.metadata.traceparent = Some(context.traceparent().to_owned());
        self
    }

    /// Returns the request with an idempotency key.
    #[must_use]
    pub fn once(self, idempotency_key: impl Into<String>) -> Self {
        Self {
            idempotency_key: Some(idempotency_key.into()),
            ..self
        }
    }

    /// Returns the mark of the event that has the effect of this request. `body` has everything that was requested
    /// but the account, within which keys are unique.
    pub(super) fn mark<const N: usize>(
        &self,
        kind: EffectKind,
        body: [(&str, Value); N],
    ) -> Option<IdempotencyMark> {
        let key = self.idempotency_key.as_ref()?;
        let body: Map<String, Value> = body
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        Some(IdempotencyMark {
            key: kind.stored_key(key),
            fingerprint: JsonObject::from(body).fingerprint(),
        })
    }

    /// Returns the advice for a request whose outcome is unknown.
    pub(super) fn advice_to_retry(&self) -> String {
        match &self.idempotency_key {
            Some(key) => format!("retry with the same idempotency key, {key:?}"),
            None => "repeat the request".to_owned(),
        }
    }
}

/// Returns a new idempotency key.
pub(super) fn new_idempotency_key(clock: &dyn Clock) -> String {
    new_uuid(clock.now()).hyphenated().to_string()
}

/// Parses an idempotency key: 1 to 128 printable ASCII characters.
///
/// # Errors
/// Returns a description of valid keys.
pub fn parse_idempotency_key(text: &str) -> Result<String, String> {
    parse_ascii(text, ADMIN_KEY_LENGTH_MAX)
}

/// Parses 1 to `length_max` printable ASCII characters, without white space at the ends.
pub(super) fn parse_ascii(text: &str, length_max: usize) -> Result<String, String> {
    let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !(1..=length_max).contains(&text.len()) || !is_printable || text.trim() != text {
        return Err(format!(
            "give 1 to {length_max} printable ASCII characters, without spaces at the ends"
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn metadata_name_the_author() {
        let operator = Author::Operator("kim@ops-1".to_owned()).metadata();
        let text = serde_json::to_string(&operator).unwrap();
        assert_eq!(text, r#"{"actor":"operator","operator":"kim@ops-1"}"#);
        let key = AdminKeyId::from_uuid(Uuid::nil());
        let text = serde_json::to_string(&Author::AdminKey(key).metadata()).unwrap();
        assert_eq!(text, r#"{"actor":"adm_00000000000000000000000000"}"#);
    }

    #[test]
    fn idempotency_key_is_printable_ascii() {
        for key in ["x", "invoice-2026-11-4711", "invoice 7", &"k".repeat(128)] {
            assert_eq!(parse_idempotency_key(key), Ok(key.to_owned()));
        }
        for text in [
            "",
            " ",
            " x",
            "x ",
            "a\tb",
            "a\u{7f}",
            "\u{e9}",
            &"k".repeat(129),
        ] {
            assert!(parse_idempotency_key(text).is_err(), "{text:?}");
        }
    }
}
