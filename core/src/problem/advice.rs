//! Meaning of each problem and advice for the caller: the texts of the problems' pages.

use super::Code;

impl Code {
    /// Returns the meaning of the code, for developers.
    pub const fn meaning(self) -> &'static str {
        self.page().0
    }

    /// Returns the advice for the caller.
    pub const fn advice(self) -> &'static str {
        self.page().1
    }

    #[expect(clippy::too_many_lines, reason = "one table: a row for each code")]
    const fn page(self) -> (&'static str, &'static str) {
        match self {
            Self::MalformedJson => (
                "The body is not exactly one JSON text in UTF-8. An empty body, a byte order mark, duplicate members, lone surrogates, text after the value and nesting deeper than 32 levels are refused too.",
                "Send the output of a JSON serialiser as it is. Check that the body was sent completely.",
            ),
            Self::BodyNotObject => (
                "The body is JSON, but an array, a string, a number, a boolean or null.",
                "Send one JSON object: {…}.",
            ),
            Self::InvalidParameter => (
                "A query parameter is unknown, occurs twice, is not correctly percent-encoded, or has a value out of range. The member errors names the parameter.",
                "Correct or omit the named parameter. Names are matched exactly.",
            ),
            Self::InvalidCursor => (
                "The cursor was not made by this service for this account and this list, or was modified.",
                "Send next_cursor of the previous page unchanged, or start again without a cursor.",
            ),
            Self::IdempotencyKeyMissing => (
                "Creating a link charges credits, so the request must carry an Idempotency-Key. Nothing was done.",
                "Send the header Idempotency-Key with a UUID: a new one for each new link, the same UUID for each retry of a request.",
            ),
            Self::IdempotencyKeyInvalid => (
                "The header Idempotency-Key is not one UUID, or occurs more than once. Nothing was done.",
                "Send one UUID with 36 characters, such as 0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0.",
            ),
            Self::InvalidHeader => (
                "A header is missing, doubled or malformed. The member errors names the header.",
                "Correct the named header. Send Consistency-Token exactly as it was received.",
            ),
            Self::AuthenticationRequired => (
                "The request has no credentials, or uses another scheme than Bearer.",
                "Send the header Authorization: Bearer followed by an API key.",
            ),
            Self::ApiKeyInvalid => (
                "The bearer token is not an API key of this service: the key is mistyped, truncated, or belongs to another service.",
                "Check the key for missing or additional characters. If the key is lost, ask the operator for a new one.",
            ),
            Self::ApiKeyExpired => (
                "The API key has expired.",
                "Use another key, or ask the operator for a new one. Requests may be retried with the new key and the same Idempotency-Key.",
            ),
            Self::ApiKeyRevoked => (
                "The API key was revoked.",
                "Use another key, or ask the operator for a new one. Requests may be retried with the new key and the same Idempotency-Key.",
            ),
            Self::InsufficientCredits => (
                "The balance of the account does not cover the price of the link. Nothing was created and nothing was charged; the members balance and required show the current balance and the price.",
                "Ask the operator for credits, then retry the request; the same Idempotency-Key may be used.",
            ),
            Self::InsufficientScope => (
                "The API key is valid but lacks the scope for this operation. The member required_scopes names the scope.",
                "Use a key with that scope, or ask the operator for one.",
            ),
            Self::AccountSuspended => (
                "An operator has suspended the account.",
                "Contact the operator. Requests may be retried once the account is active again.",
            ),
            Self::RouteNotFound => (
                "The path does not exist. Paths are matched exactly: case-sensitive, without a slash at the end and without encoded letters.",
                "Compare the path with the documentation of the API.",
            ),
            Self::LinkNotFound => (
                "The link does not exist: it was never created, was deleted, or belongs to another account.",
                "Check the id and the API key, or the short address. Ids are matched exactly, in lower case.",
            ),
            Self::MethodNotAllowed => (
                "The path exists but does not support the method.",
                "Use one of the methods that the header Allow lists.",
            ),
            Self::NotAcceptable => (
                "The header Accept excludes JSON, but all answers are JSON.",
                "Send Accept: application/json, or omit the header.",
            ),
            Self::SlugTaken => (
                "Another link has this slug. Slugs are case-insensitive, and the slug of a deleted link is never used again. Nothing was charged.",
                "Choose another slug, or omit the slug to receive a generated one. The same Idempotency-Key may be used.",
            ),
            Self::IdempotencyKeyInUse => (
                "The first request with this Idempotency-Key is still running.",
                "Wait for the seconds in Retry-After, then retry the request unchanged: the retry receives the answer of the first request.",
            ),
            Self::ShortLinkGone => (
                "The short link existed, but was deleted or disabled.",
                "Ask the person who gave you the address for a new address.",
            ),
            Self::EtagMismatch => (
                "If-Match does not name the current version of the link: the link was changed by another request, or the tag is weak or lacks its quotes. Nothing was done; the header ETag has the current version.",
                "Read the link again, decide if the change is still wanted, and retry with the current ETag, including its quotes.",
            ),
            Self::ContentTooLarge => (
                "The body is larger than 16 KiB.",
                "Send only documented members, with shorter values and without white space.",
            ),
            Self::UriTooLong => (
                "The path and query of the request exceed the limit of 8 KiB.",
                "Omit undocumented parameters; a valid address is always shorter.",
            ),
            Self::UnsupportedMediaType => (
                "The Content-Type is missing, or is not a media type that this operation accepts.",
                "Send the media type named in detail, without a charset or with charset=utf-8.",
            ),
            Self::UnsupportedContentEncoding => (
                "The body is compressed.",
                "Send the body uncompressed, without Content-Encoding, and with no Transfer-Encoding except chunked.",
            ),
            Self::ValidationFailed => (
                "One or more fields of the body are not valid. The member errors lists all of them, or 100 if there are more, each with a pointer to the field, a code and a remedy. Nothing was charged.",
                "Correct every listed field, and retry the request; the same Idempotency-Key may be used.",
            ),
            Self::IdempotencyKeyReused => (
                "This Idempotency-Key has already created a link from a different body.",
                "Use a new key for a new link. To receive the first answer again, send the first body.",
            ),
            Self::RateLimited => (
                "The account has sent more requests than its limit allows. Nothing was done.",
                "Wait for the seconds in Retry-After. The headers RateLimit-Policy and RateLimit show the limit and the rest of it.",
            ),
            Self::HeadersTooLarge => (
                "The headers of the request are too many or too long.",
                "Omit undocumented headers, especially cookies.",
            ),
            Self::InternalError => (
                "The service has a defect.",
                "Retry the request, a create with the same Idempotency-Key: a create is never executed twice. If the error persists, report the request_id.",
            ),
            Self::Overloaded => (
                "The service is overloaded. Nothing was done.",
                "Retry after the seconds in Retry-After, with a longer backoff for each attempt.",
            ),
            Self::StorageUnavailable => (
                "The database does not answer. Nothing was done.",
                "Retry after the seconds in Retry-After, a create with the same Idempotency-Key.",
            ),
            Self::ReadModelBehind => (
                "The read model lags: it does not yet contain the change that this read must reflect. The change itself is committed.",
                "Retry after the seconds in Retry-After.",
            ),
            Self::DeadlineExceeded => (
                "The outcome was unknown at the deadline: the request may have succeeded (see the member may_have_succeeded).",
                "Retry the same request, a create with its Idempotency-Key: a retried create returns the outcome and never charges twice; a retried change has the same result.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_meaning_and_advice() {
        for code in Code::ALL {
            for text in [code.meaning(), code.advice()] {
                let begins_well = text.chars().next().is_some_and(char::is_uppercase);
                assert!(begins_well && text.ends_with('.'), "{code:?}: {text}");
            }
        }
    }
}
