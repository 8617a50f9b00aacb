//! The error catalogue: every code with its status, its texts and the advice of its page.
//! `core/http/tests/problems.json` is its golden file.

use linkledger_core::listed;

/// Status, name, title, meaning and advice of a code. The last two are the texts of its page.
type CodeRow = (u16, &'static str, &'static str, &'static str, &'static str);

listed! {
    /// Stable code of a problem. A code is never renamed or given another meaning.
    pub enum Code: CodeRow {
        /// The body is not exactly one JSON text.
        MalformedJson = (400, "malformed_json", "The body is not well-formed JSON",
            "The body is not exactly one JSON text in UTF-8. An empty body, a byte order mark, duplicate members, lone surrogates, text after the value and nesting deeper than 32 levels are refused too.",
            "Send the output of a JSON serialiser as it is. Check that the body was sent completely."),
        /// The body is JSON, but not an object.
        BodyNotObject = (400, "body_not_object", "The body is not a JSON object",
            "The body is JSON, but an array, a string, a number, a boolean or null.",
            "Send one JSON object: {…}."),
        /// A parameter of the query or of the path is unknown, repeated or out of range.
        InvalidParameter = (400, "invalid_parameter", "A parameter is not valid",
            "A parameter of the query or of the path is unknown, occurs twice, is not correctly percent-encoded, or has a value out of range. The member errors names the parameter.",
            "Correct or omit the named parameter. Names are matched exactly."),
        /// The cursor was changed, or is not of this list of this account.
        InvalidCursor = (400, "invalid_cursor", "The cursor is not valid",
            "The cursor is not that of a page of this list of this account, with the same filters and order, or was modified.",
            "Send next_cursor of the previous page unchanged, or start again without a cursor."),
        /// The code of a console session does not open the console.
        ConsoleCodeInvalid = (400, "console_code_invalid", "The code does not open the console",
            "The code of a console session opens the console once, within 60 s after it was made. This one is unknown, was used, or is older. Nothing was done.",
            "Go back to the page that led to the console, and open the console from there again."),
        /// The request must have its effect only once, and lacks an idempotency key.
        IdempotencyKeyMissing = (400, "idempotency_key_missing", "The Idempotency-Key is missing",
            "The request must have its effect only once, however often it is retried, so it must carry an Idempotency-Key. Nothing was done.",
            "Send the header Idempotency-Key: a new key for each new request, such as a UUID, and the same key for each retry of the request."),
        /// The idempotency key is malformed, or occurs more than once.
        IdempotencyKeyInvalid = (400, "idempotency_key_invalid", "The Idempotency-Key is not valid",
            "The header Idempotency-Key does not have the form that the operation needs, or occurs more than once. Nothing was done.",
            "Send one key: to create a link, a UUID with 36 characters, such as 0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0, also for a webhook; to the admin API, 1 to 128 printable ASCII characters, such as invoice-2026-11-4711."),
        /// A header is missing, doubled or malformed.
        InvalidHeader = (400, "invalid_header", "A header is not valid",
            "A header is missing, doubled or malformed. The member errors names the header.",
            "Correct the named header. Send Consistency-Token and If-Match exactly as they were received, If-Match with its quotes."),
        /// The request has no bearer token.
        AuthenticationRequired = (401, "authentication_required", "Authentication is required",
            "The request has no credentials, or uses another scheme than Bearer.",
            "Send the header Authorization: Bearer followed by an API key, or to the admin API by an admin key."),
        /// The token is not a key of this service.
        ApiKeyInvalid = (401, "api_key_invalid", "The API key is not valid",
            "The bearer token is not a key of this API: the key is mistyped, truncated, or belongs to another service or to the other API of this one. API keys begin with llk_, keys of the admin API with lla_.",
            "Check the key for missing or additional characters. If the key is lost, ask the operator for a new one."),
        /// The key has expired.
        ApiKeyExpired = (401, "api_key_expired", "The API key has expired",
            "The API key has expired.",
            "Use another key, or ask the operator for a new one. Requests may be retried with the new key and the same Idempotency-Key."),
        /// The key was revoked.
        ApiKeyRevoked = (401, "api_key_revoked", "The API key was revoked",
            "The API key was revoked.",
            "Use another key, or ask the operator for a new one. Requests may be retried with the new key and the same Idempotency-Key."),
        /// The balance does not cover the price.
        InsufficientCredits = (402, "insufficient_credits", "The credits do not suffice",
            "The balance of the account is lower than what the request takes from it: the price of a link, or the amount of an adjustment. Nothing was done; the members balance and required show the current balance and the credits that the request needs.",
            "Ask the operator for credits, then retry the request; the same Idempotency-Key may be used. An adjustment never makes a balance negative."),
        /// The key lacks a scope.
        InsufficientScope = (403, "insufficient_scope", "The API key lacks a scope",
            "The API key is valid but lacks the scope for this operation. The member required_scopes names the scope.",
            "Use a key with that scope, or ask the operator for one."),
        /// An operator suspended the account.
        AccountSuspended = (403, "account_suspended", "The account is suspended",
            "An operator has suspended the account.",
            "Contact the operator. Requests may be retried once the account is active again."),
        /// An operator has disabled the link.
        LinkDisabledByOperator = (403, "link_disabled_by_operator", "An operator has disabled the link",
            "An operator has taken the link out of service, which its owner cannot undo. Nothing was changed.",
            "Contact the operator. The member disabled can be left out, or sent as true."),
        /// The path does not exist.
        RouteNotFound = (404, "route_not_found", "There is nothing at this path",
            "The path does not exist. Paths are matched exactly: case-sensitive, without a slash at the end and without encoded letters.",
            "Compare the path with the documentation of the API."),
        /// The account has no such link.
        LinkNotFound = (404, "link_not_found", "There is no such link",
            "The link does not exist: it was never created, was deleted, or belongs to another account.",
            "Check the id and the API key, or the short address. Ids are matched exactly, in lower case."),
        /// There is no such account.
        AccountNotFound = (404, "account_not_found", "There is no such account",
            "The service has no account with this id.",
            "Check the id. Ids are matched exactly, in lower case; the admin API finds an account by its external id."),
        /// There is no such API key.
        KeyNotFound = (404, "key_not_found", "There is no such API key",
            "The service has no API key with this id.",
            "Check the id, which begins with key_ and is not the secret. Ids are matched exactly, in lower case."),
        /// The account has no such entry, or one of another type.
        EntryNotFound = (404, "entry_not_found", "There is no such entry",
            "The ledger of the account has no entry with this id, or its entry is of a type to which the request does not apply: a refund gives back a charge, a revocation takes back a grant.",
            "Check the id and the account. Ids are matched exactly, in lower case."),
        /// There is no such webhook.
        WebhookNotFound = (404, "webhook_not_found", "There is no such webhook",
            "The webhook does not exist: it was never created, was deleted, or belongs to another account.",
            "Check the id, which begins with whe_, and the API key. Ids are matched exactly, in lower case."),
        /// The webhook has no such delivery.
        DeliveryNotFound = (404, "delivery_not_found", "There is no such delivery",
            "The webhook has no delivery with this id. Of the successful deliveries only the newest are kept.",
            "Check the id, which begins with dlv_, and the webhook. Ids are matched exactly, in lower case."),
        /// The path does not support the method.
        MethodNotAllowed = (405, "method_not_allowed", "The method is not allowed here",
            "The path exists but does not support the method.",
            "Use one of the methods that the header Allow lists."),
        /// The caller accepts no media type of the route.
        NotAcceptable = (406, "not_acceptable", "There is no answer of an accepted media type",
            "The header Accept excludes all media types of the operation: application/json, also text/csv for statistics of clicks, and image/svg+xml or image/png for a QR code.",
            "Send a media type that detail names, or omit the header."),
        /// The slug belongs to another link.
        SlugTaken = (409, "slug_taken", "The slug is taken",
            "Another link has this slug. Slugs are case-insensitive, and the slug of a deleted link is never used again. Nothing was charged.",
            "Choose another slug, or omit the slug to receive a generated one. The same Idempotency-Key may be used."),
        /// Another link of the account, or another account, has the external id.
        ExternalIdTaken = (409, "external_id_taken", "The external id is taken",
            "Another link of the account, or for an account another account of the service, has this external_id. Nothing was done.",
            "Choose another external_id, or change what has it, which detail names. The same Idempotency-Key may be used."),
        /// The charge was refunded.
        AlreadyRefunded = (409, "already_refunded", "The charge was refunded before",
            "An earlier request has given this charge back. Nothing was done.",
            "Nothing is left to do. To see the refund, look for the entry whose member refunds is this charge."),
        /// The grant was revoked.
        AlreadyRevoked = (409, "already_revoked", "The grant was revoked before",
            "An earlier request has taken this grant back, as far as the balance allowed. Nothing was done.",
            "Nothing is left to do for this grant. To take what that request could not take, adjust the balance."),
        /// The API key has expired, or was revoked or rotated.
        KeyNotValid = (409, "key_not_valid", "The API key is not valid any more",
            "The API key has expired, or was revoked or rotated, so it cannot be changed or rotated. Nothing was done.",
            "Issue a new key."),
        /// The account has as many webhooks as it may have.
        WebhookLimitReached = (409, "webhook_limit_reached", "There are too many webhooks",
            "The account has as many webhooks as it may have, enabled or not. Nothing was done.",
            "Delete a webhook, or change one: a webhook can receive messages of all types."),
        /// A replay of the webhook is running.
        ReplayInProgress = (409, "replay_in_progress", "A replay is running",
            "A replay of this webhook is still running. Nothing was done.",
            "Wait until is_replaying of the webhook is false, then retry the request."),
        /// The webhook is disabled.
        WebhookDisabled = (409, "webhook_disabled", "The webhook is disabled",
            "The webhook is disabled, so a replay would send nothing. Nothing was done.",
            "Enable the webhook, then retry the request."),
        /// The log was restored from a backup since the cursor was made.
        LogRestored = (409, "log_restored", "The log was restored from a backup",
            "The service was restored from a backup after the cursor was made. Events that you have read may be lost, and others may have their places.",
            "Begin again without the cursor: with from as an instant before the one to which the log was restored, which the operator knows, or from the beginning. Drop what you have of events since that instant."),
        /// A request with this idempotency key is still running.
        IdempotencyKeyInUse = (409, "idempotency_key_in_use", "A request with this Idempotency-Key is running",
            "The first request with this Idempotency-Key is still running.",
            "Wait for the seconds in Retry-After, then retry the request unchanged: the retry receives the answer of the first request."),
        /// The short link has expired, or was deleted or disabled.
        ShortLinkGone = (410, "short_link_gone", "The short link is gone",
            "The short link existed, but has expired, or was deleted or disabled.",
            "Ask the person who gave you the address for a new address."),
        /// The link has changed since the caller read it.
        EtagMismatch = (412, "etag_mismatch", "The link has another version than If-Match names",
            "If-Match does not name the current version of the link: the link was changed by another request, or the tag is weak. Nothing was done; the header ETag has the current version.",
            "Read the link again, decide if the change is still wanted, and retry with the current ETag, including its quotes."),
        /// The body is too large.
        ContentTooLarge = (413, "content_too_large", "The body is too large",
            "The body is larger than 32 KiB, or that of a batch larger than 256 KiB.",
            "Send only documented members, with shorter values and without white space; send fewer items in a batch."),
        /// The request's target is too long.
        UriTooLong = (414, "uri_too_long", "The address of the request is too long",
            "The path and query of the request exceed the limit of 8 KiB.",
            "Omit undocumented parameters; a valid address is always shorter."),
        /// The body's media type is not JSON.
        UnsupportedMediaType = (415, "unsupported_media_type", "The body must be JSON",
            "The Content-Type is missing, or is not a media type that this operation accepts.",
            "Send the media type named in detail, without a charset or with charset=utf-8."),
        /// The body is compressed.
        UnsupportedContentEncoding = (415, "unsupported_content_encoding", "The body must not be compressed",
            "The body is compressed.",
            "Send the body uncompressed, without Content-Encoding, and with no Transfer-Encoding except chunked."),
        /// The service does not answer for the host of the request.
        HostNotServed = (421, "host_not_served", "The host is not served here",
            "The request is for a host that this server does not answer for: another name leads to the server, or a proxy sends another Host. Nothing was done.",
            "Use the address that detail names. Operators let the proxy pass on the Host of the client, or name further hosts in ALLOWED_HOSTS, of the admin API in ADMIN_ALLOWED_HOSTS."),
        /// The body has invalid fields.
        ValidationFailed = (422, "validation_failed", "The body is not valid",
            "One or more fields of the body are not valid. The member errors lists all of them, or 100 if there are more, each with a pointer to the field, a code and a remedy. Nothing was done.",
            "Correct every listed field, and retry the request; the same Idempotency-Key may be used."),
        /// The idempotency key was used for another request.
        IdempotencyKeyReused = (422, "idempotency_key_reused", "The Idempotency-Key was used for another request",
            "An earlier request with this Idempotency-Key, but with a different body, had its effect. Nothing was done.",
            "Use a new key for a new request. To receive the first answer again, send the first body."),
        /// The account sent too many requests.
        RateLimited = (429, "rate_limited", "There were too many requests",
            "The account has sent more requests than its limit allows. Nothing was done.",
            "Wait for the seconds in Retry-After. The headers RateLimit-Policy and RateLimit show the limit and the rest of it."),
        /// The headers are too many or too long.
        HeadersTooLarge = (431, "headers_too_large", "The headers are too many or too long",
            "The headers of the request are too many or too long.",
            "Omit undocumented headers, especially cookies."),
        /// The service has a defect.
        InternalError = (500, "internal_error", "The service has failed",
            "The service has a defect.",
            "Retry the request, with the same Idempotency-Key if it has one: a request with a key is never executed twice. If the error persists, report the request_id."),
        /// The queue of commands is full.
        Overloaded = (503, "overloaded", "The service is overloaded",
            "The service is overloaded. Nothing was done.",
            "Retry after the seconds in Retry-After, with a longer backoff for each attempt."),
        /// The database does not answer.
        StorageUnavailable = (503, "storage_unavailable", "The storage is unavailable",
            "The database does not answer. Nothing was done.",
            "Retry after the seconds in Retry-After, with the same Idempotency-Key if the request has one."),
        /// The installation has no keys for the secrets of webhooks.
        WebhooksOff = (503, "webhooks_off", "Webhooks are switched off",
            "This installation has no master keys, from which the secrets of webhooks are derived, or no longer the one of this secret. Nothing was done.",
            "If the detail names a master key, rotate the secret. Otherwise ask the operator, who names a file with master keys in WEBHOOK_KEYS_FILE."),
        /// The read model lags and does not contain the required change.
        ReadModelBehind = (503, "read_model_behind", "The read model lags",
            "The read model lags: it does not yet contain what this read must reflect, such as the write that the Consistency-Token names. What was answered with success stays committed.",
            "Retry after the seconds in Retry-After. If only reads with a Consistency-Token fail, send the token exactly as it was received, or leave it out."),
        /// The outcome is unknown at the deadline.
        DeadlineExceeded = (504, "deadline_exceeded", "The outcome is unknown",
            "The outcome was unknown at the deadline: the request may have succeeded (see the member may_have_succeeded).",
            "Retry the same request, with its Idempotency-Key if it has one: a retry with a key returns the outcome and never has a second effect; a retried change has the same result."),
    }
}

impl Code {
    /// Returns the HTTP status of the code.
    pub const fn status(self) -> u16 {
        self.row().0
    }

    /// Returns the code as sent to clients.
    pub const fn as_str(self) -> &'static str {
        self.row().1
    }

    /// Returns the title, the same for every occurrence.
    pub const fn title(self) -> &'static str {
        self.row().2
    }

    /// Returns the meaning of the code, for developers.
    pub const fn meaning(self) -> &'static str {
        self.row().3
    }

    /// Returns the advice for the caller.
    pub const fn advice(self) -> &'static str {
        self.row().4
    }

    /// Finds the code with this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == name)
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
