//! An example of each problem, for the documentation.

use super::{Code, Problem, occurrence::CURSOR_NOT_OF_LIST};
use linkledger_core::{
    field::{FieldCode, FieldError},
    json::TextPlace,
    link::Slug,
};

/// Request id of the examples.
pub const EXAMPLE_REQUEST_ID: &str = "req_9hqs7mz1e0vxk3b5c8d2";
/// Link id of the examples.
const EXAMPLE_LINK_ID: &str = "lnk_01h455vb4pex5vsknk084sn02q";
/// Address of the API in the examples.
const EXAMPLE_BASE_URL: &str = "https://api.example.com";
const KIB: usize = 1024;

impl Problem {
    /// Returns an example of the problem: an answer that the services really give.
    pub fn example_of(code: Code) -> Self {
        match code {
            Code::MalformedJson => Self::malformed_json(TextPlace {
                line: 1,
                column: 18,
            }),
            Code::BodyNotObject => Self::body_not_object(),
            Code::InvalidParameter => Self::invalid_parameter(
                "limit",
                "out_of_range",
                "The limit is a number from 1 to 100.",
            )
            .with("minimum", 1)
            .with("maximum", 100),
            Code::InvalidCursor => Self::invalid_cursor(CURSOR_NOT_OF_LIST),
            Code::ConsoleCodeInvalid => Self::console_code_invalid(),
            Code::IdempotencyKeyMissing => Self::idempotency_key_missing(),
            Code::IdempotencyKeyInvalid => Self::idempotency_key_invalid(),
            Code::InvalidHeader => Self::invalid_header("Host", "The Host header is missing."),
            Code::AuthenticationRequired => Self::authentication_required(),
            Code::ApiKeyInvalid => Self::api_key_invalid(),
            Code::ApiKeyExpired => Self::api_key_expired(),
            Code::ApiKeyRevoked => Self::api_key_revoked(),
            Code::InsufficientCredits => Self::insufficient_credits(0, 1),
            Code::InsufficientScope => Self::insufficient_scope("link:links.read"),
            Code::AccountSuspended => Self::account_suspended(),
            Code::LinkDisabledByOperator => Self::link_disabled_by_operator(),
            Code::RouteNotFound => Self::route_not_found(),
            Code::LinkNotFound => Self::link_not_found(),
            Code::AccountNotFound => Self::account_not_found(),
            Code::KeyNotFound => Self::key_not_found(),
            Code::EntryNotFound => Self::entry_not_found(),
            Code::WebhookNotFound => Self::webhook_not_found(),
            Code::DeliveryNotFound => Self::delivery_not_found(),
            Code::MethodNotAllowed => Self::method_not_allowed("GET, HEAD, POST, OPTIONS"),
            Code::NotAcceptable => Self::not_acceptable(&["application/json"]),
            Code::SlugTaken => Self::slug_taken(&Slug::example()),
            Code::ExternalIdTaken => Self::external_id_taken(Some(EXAMPLE_LINK_ID)),
            Code::AlreadyRefunded => Self::already_refunded(),
            Code::AlreadyRevoked => Self::already_revoked(),
            Code::KeyNotValid => Self::key_not_valid("was revoked"),
            Code::WebhookLimitReached => {
                Self::webhook_limit_reached(linkledger_core::webhook::WEBHOOKS_OF_ACCOUNT_MAX)
            }
            Code::ReplayInProgress => Self::replay_in_progress(),
            Code::WebhookDisabled => Self::webhook_disabled(),
            Code::LogRestored => Self::log_restored(),
            Code::IdempotencyKeyInUse => Self::idempotency_key_in_use(),
            Code::ShortLinkGone => Self::short_link_gone(),
            Code::EtagMismatch => Self::etag_mismatch("\"2\""),
            Code::ContentTooLarge => Self::content_too_large(32 * KIB),
            Code::UriTooLong => Self::uri_too_long(8 * KIB),
            Code::UnsupportedMediaType => Self::unsupported_media_type("application/json"),
            Code::UnsupportedContentEncoding => Self::unsupported_content_encoding(),
            Code::HostNotServed => Self::host_not_served(EXAMPLE_BASE_URL),
            Code::ValidationFailed => Self::validation_failed(&[
                FieldError::of_member("destination_url", FieldCode::UrlSchemeNotAllowed),
                FieldError::of_member("slug", FieldCode::SlugReserved),
            ]),
            Code::IdempotencyKeyReused => Self::idempotency_key_reused(),
            Code::RateLimited => Self::rate_limited(1, "the next write request"),
            Code::HeadersTooLarge => Self::headers_too_large(64, 16 * KIB),
            Code::InternalError => Self::internal(),
            Code::Overloaded => Self::overloaded(),
            Code::StorageUnavailable => Self::storage_unavailable(),
            Code::WebhooksOff => Self::webhooks_off(),
            Code::ReadModelBehind => Self::read_model_behind(),
            Code::DeadlineExceeded => Self::deadline_exceeded(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_has_the_code_that_it_explains() {
        for code in Code::ALL {
            assert_eq!(Problem::example_of(*code).code, *code);
        }
    }
}
