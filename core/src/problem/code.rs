//! The error catalogue: every code with its status and title. `core/tests/problems.json` is its
//! golden file.

use crate::listed::listed;

listed! {
    /// Stable code of a problem. A code is never renamed or given another meaning.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Code {
        /// The body is not exactly one JSON text.
        MalformedJson,
        /// The body is JSON, but not an object.
        BodyNotObject,
        /// A query parameter is unknown, repeated or out of range.
        InvalidParameter,
        /// The cursor was not issued to this account for this list.
        InvalidCursor,
        /// The request charges credits and lacks an idempotency key.
        IdempotencyKeyMissing,
        /// The idempotency key is not one UUID.
        IdempotencyKeyInvalid,
        /// A header is missing, doubled or malformed.
        InvalidHeader,
        /// The request has no bearer token.
        AuthenticationRequired,
        /// The token is not a key of this service.
        ApiKeyInvalid,
        /// The key has expired.
        ApiKeyExpired,
        /// The key was revoked.
        ApiKeyRevoked,
        /// The balance does not cover the price.
        InsufficientCredits,
        /// The key lacks a scope.
        InsufficientScope,
        /// An operator suspended the account.
        AccountSuspended,
        /// The path does not exist.
        RouteNotFound,
        /// The account has no such link.
        LinkNotFound,
        /// The path does not support the method.
        MethodNotAllowed,
        /// The caller does not accept JSON.
        NotAcceptable,
        /// The slug belongs to another link.
        SlugTaken,
        /// A request with this idempotency key is still running.
        IdempotencyKeyInUse,
        /// The short link was deleted or disabled.
        ShortLinkGone,
        /// The link has changed since the caller read it.
        EtagMismatch,
        /// The body is too large.
        ContentTooLarge,
        /// The request's target is too long.
        UriTooLong,
        /// The body's media type is not JSON.
        UnsupportedMediaType,
        /// The body is compressed.
        UnsupportedContentEncoding,
        /// The body has invalid fields.
        ValidationFailed,
        /// The idempotency key was used for another request.
        IdempotencyKeyReused,
        /// The account sent too many requests.
        RateLimited,
        /// The headers are too many or too long.
        HeadersTooLarge,
        /// The service has a defect.
        InternalError,
        /// The queue of commands is full.
        Overloaded,
        /// The database does not answer.
        StorageUnavailable,
        /// The read model lags and does not contain the required change.
        ReadModelBehind,
        /// The outcome is unknown at the deadline.
        DeadlineExceeded,
    }
}

impl Code {
    /// Returns the code as sent to clients.
    pub const fn as_str(self) -> &'static str {
        self.row().1
    }

    /// Returns the HTTP status of the code.
    pub const fn status(self) -> u16 {
        self.row().0
    }

    /// Returns the title, the same for every occurrence.
    pub const fn title(self) -> &'static str {
        self.row().2
    }

    /// Finds the code with this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == name)
    }

    #[rustfmt::skip]
    const fn row(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::MalformedJson => (400, "malformed_json", "The body is not well-formed JSON"),
            Self::BodyNotObject => (400, "body_not_object", "The body is not a JSON object"),
            Self::InvalidParameter => (400, "invalid_parameter", "A query parameter is not valid"),
            Self::InvalidCursor => (400, "invalid_cursor", "The cursor is not valid"),
            Self::IdempotencyKeyMissing => (400, "idempotency_key_missing", "The Idempotency-Key is missing"),
            Self::IdempotencyKeyInvalid => (400, "idempotency_key_invalid", "The Idempotency-Key is not valid"),
            Self::InvalidHeader => (400, "invalid_header", "A header is not valid"),
            Self::AuthenticationRequired => (401, "authentication_required", "Authentication is required"),
            Self::ApiKeyInvalid => (401, "api_key_invalid", "The API key is not valid"),
            Self::ApiKeyExpired => (401, "api_key_expired", "The API key has expired"),
            Self::ApiKeyRevoked => (401, "api_key_revoked", "The API key was revoked"),
            Self::InsufficientCredits => (402, "insufficient_credits", "The credits do not suffice"),
            Self::InsufficientScope => (403, "insufficient_scope", "The API key lacks a scope"),
            Self::AccountSuspended => (403, "account_suspended", "The account is suspended"),
            Self::RouteNotFound => (404, "route_not_found", "There is nothing at this path"),
            Self::LinkNotFound => (404, "link_not_found", "There is no such link"),
            Self::MethodNotAllowed => (405, "method_not_allowed", "The method is not allowed here"),
            Self::NotAcceptable => (406, "not_acceptable", "Only JSON answers are available"),
            Self::SlugTaken => (409, "slug_taken", "The slug is taken"),
            Self::IdempotencyKeyInUse => (409, "idempotency_key_in_use", "A request with this Idempotency-Key is running"),
            Self::ShortLinkGone => (410, "short_link_gone", "The short link is gone"),
            Self::EtagMismatch => (412, "etag_mismatch", "The link has another version than If-Match names"),
            Self::ContentTooLarge => (413, "content_too_large", "The body is too large"),
            Self::UriTooLong => (414, "uri_too_long", "The address of the request is too long"),
            Self::UnsupportedMediaType => (415, "unsupported_media_type", "The body must be JSON"),
            Self::UnsupportedContentEncoding => (415, "unsupported_content_encoding", "The body must not be compressed"),
            Self::ValidationFailed => (422, "validation_failed", "The body is not valid"),
            Self::IdempotencyKeyReused => (422, "idempotency_key_reused", "The Idempotency-Key was used for another request"),
            Self::RateLimited => (429, "rate_limited", "There were too many requests"),
            Self::HeadersTooLarge => (431, "headers_too_large", "The headers are too many or too long"),
            Self::InternalError => (500, "internal_error", "The service has failed"),
            Self::Overloaded => (503, "overloaded", "The service is overloaded"),
            Self::StorageUnavailable => (503, "storage_unavailable", "The storage is unavailable"),
            Self::ReadModelBehind => (503, "read_model_behind", "The read model lags"),
            Self::DeadlineExceeded => (504, "deadline_exceeded", "The outcome is unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn problem_catalogue_equals_the_golden_file() {
        let golden: BTreeMap<String, Value> =
            serde_json::from_str(include_str!("../../tests/problems.json")).unwrap();
        let catalogue: BTreeMap<String, Value> = Code::ALL
            .iter()
            .map(|code| {
                let row = json!({ "status": code.status(), "title": code.title() });
                (code.as_str().to_owned(), row)
            })
            .collect();
        assert_eq!(catalogue.len(), Code::ALL.len(), "two codes have one name");
        assert_eq!(catalogue, golden);
    }

    #[test]
    fn a_code_is_found_by_its_exact_name_only() {
        assert_eq!(Code::find("slug_taken"), Some(Code::SlugTaken));
        for name in ["", "Slug_taken", "slug_taken ", "slug-taken"] {
            assert_eq!(Code::find(name), None, "{name}");
        }
    }
}
