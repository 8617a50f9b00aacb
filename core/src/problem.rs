//! The error catalogue: problem details of RFC 9457 with stable codes (contract §9).
//!
//! Pure; `http::answer` turns a [`Problem`] into a response.

use serde_json::{Map, Value, json};

use crate::field::FieldError;

/// Stable code of a problem; a name is never changed or given another meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// Not exactly one JSON text.
    MalformedJson,
    /// JSON, but not an object.
    BodyNotObject,
    /// A query parameter is unknown, repeated or out of range.
    InvalidParameter,
    /// The cursor is not one that this account was given for this list.
    InvalidCursor,
    /// The call charges credits and needs a key.
    IdempotencyKeyMissing,
    /// The key is not one UUID.
    IdempotencyKeyInvalid,
    /// A header is missing, doubled or malformed.
    InvalidHeader,
    /// No bearer token.
    AuthenticationRequired,
    /// Not a key of this service.
    ApiKeyInvalid,
    /// The key's time is over.
    ApiKeyExpired,
    /// The key was withdrawn.
    ApiKeyRevoked,
    /// The balance does not cover the price.
    InsufficientCredits,
    /// The key lacks a scope.
    InsufficientScope,
    /// An operator suspended the account.
    AccountSuspended,
    /// No such path.
    RouteNotFound,
    /// No such link in this account.
    LinkNotFound,
    /// The path does not know the method.
    MethodNotAllowed,
    /// The caller accepts no JSON.
    NotAcceptable,
    /// The slug belongs to another link.
    SlugTaken,
    /// A request with this key is still running.
    IdempotencyKeyInUse,
    /// The body is too large.
    ContentTooLarge,
    /// The body's media type is not JSON.
    UnsupportedMediaType,
    /// The body is compressed.
    UnsupportedContentEncoding,
    /// Fields of the body are wrong.
    ValidationFailed,
    /// The key was used for another request.
    IdempotencyKeyReused,
    /// Too many requests of this account.
    RateLimited,
    /// A defect of ours.
    InternalError,
    /// The queue is full.
    Overloaded,
    /// The database does not answer.
    StorageUnavailable,
    /// The read tables don't contain it yet.
    ReadModelBehind,
    /// The outcome is not known in time.
    DeadlineExceeded,
}

impl Code {
    /// The code as it is sent.
    pub const fn as_str(self) -> &'static str {
        self.row().1
    }

    /// The HTTP status; one for each code.
    pub const fn status(self) -> u16 {
        self.row().0
    }

    /// What kind of problem it is, the same for every occurrence.
    pub const fn title(self) -> &'static str {
        self.row().2
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
            Self::NotAcceptable => (406, "not_acceptable", "The answer would be JSON"),
            Self::SlugTaken => (409, "slug_taken", "The slug is taken"),
            Self::IdempotencyKeyInUse => (409, "idempotency_key_in_use", "A request with this key is running"),
            Self::ContentTooLarge => (413, "content_too_large", "The body is too large"),
            Self::UnsupportedMediaType => (415, "unsupported_media_type", "The body must be JSON"),
            Self::UnsupportedContentEncoding => (415, "unsupported_content_encoding", "The body must not be compressed"),
            Self::ValidationFailed => (422, "validation_failed", "The body is not valid"),
            Self::IdempotencyKeyReused => (422, "idempotency_key_reused", "The key was used for another request"),
            Self::RateLimited => (429, "rate_limited", "There were too many requests"),
            Self::InternalError => (500, "internal_error", "The service has failed"),
            Self::Overloaded => (503, "overloaded", "The service is overloaded"),
            Self::StorageUnavailable => (503, "storage_unavailable", "The storage is unavailable"),
            Self::ReadModelBehind => (503, "read_model_behind", "The read tables are behind"),
            Self::DeadlineExceeded => (504, "deadline_exceeded", "The outcome is not known"),
        }
    }
}

/// One occurrence of a problem, on its way to the caller.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Which problem.
    pub code: Code,
    /// What happened and what to do, for a person.
    pub detail: String,
    /// Members beyond those that every problem has.
    pub members: Map<String, Value>,
    /// Headers that belong to the answer, by name.
    pub headers: Vec<(&'static str, String)>,
}

impl Problem {
    /// A problem with nothing but a detail.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            members: Map::new(),
            headers: Vec::new(),
        }
    }

    /// The same with one more member.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// The same with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The same with `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        self.with_header("retry-after", seconds.to_string())
    }

    /// A defect of ours; the caller learns no more than that.
    pub fn internal() -> Self {
        Self::new(
            Code::InternalError,
            "The request failed through a defect of the service.",
        )
    }

    /// The database does not answer; nothing was done.
    pub fn storage_unavailable() -> Self {
        Self::new(
            Code::StorageUnavailable,
            "Nothing was done; try again shortly.",
        )
        .retry_after(1)
    }

    /// Fields of the body are wrong: all of them at once.
    pub fn validation_failed(errors: &[FieldError]) -> Self {
        let detail = match errors.len() {
            1 => "1 field is not valid.".to_owned(),
            count => format!("{count} fields are not valid."),
        };
        let errors: Vec<Value> = errors
            .iter()
            .map(|error| {
                json!({
                    "pointer": error.pointer,
                    "code": error.code.as_str(),
                    "detail": error.code.detail(),
                })
            })
            .collect();
        Self::new(Code::ValidationFailed, detail).with("errors", errors)
    }

    /// A query parameter is wrong.
    pub fn invalid_parameter(parameter: &str, code: &str, detail: &str) -> Self {
        let error = json!({ "parameter": parameter, "code": code, "detail": detail });
        Self::new(Code::InvalidParameter, detail).with("errors", vec![error])
    }

    /// A header is wrong.
    pub fn invalid_header(header: &str, detail: &str) -> Self {
        let error = json!({ "header": header, "code": "invalid_header", "detail": detail });
        Self::new(Code::InvalidHeader, detail).with("errors", vec![error])
    }

    /// The body of the answer.
    pub fn to_body(&self, base_url: &str, request_id: &str) -> Value {
        let mut body = self.members.clone();
        let code = self.code.as_str();
        body.insert(
            "type".to_owned(),
            format!("{base_url}/docs/problems/{code}").into(),
        );
        body.insert("title".to_owned(), self.code.title().into());
        body.insert("status".to_owned(), self.code.status().into());
        body.insert("detail".to_owned(), self.detail.as_str().into());
        body.insert(
            "instance".to_owned(),
            format!("urn:linkledger:request:{request_id}").into(),
        );
        body.insert("code".to_owned(), code.into());
        body.insert("request_id".to_owned(), request_id.into());
        Value::Object(body)
    }
}
