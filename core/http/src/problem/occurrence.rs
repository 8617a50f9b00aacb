//! The usual problem of each code. Services and examples of the documentation take the same functions, so an
//! example shows a real sentence.

use serde_json::json;

use super::{Code, Problem};
use linkledger_core::{json::TextPlace, link::Slug};

/// Challenge of an answer to a request without credentials (RFC 6750).
const CHALLENGE: &str = "Bearer realm=\"linkledger\"";

/// Advice on a cursor that was changed, or is of another list.
pub const CURSOR_NOT_OF_LIST: &str =
    "Send next_cursor of the page before unchanged, or begin without a cursor.";

impl Problem {
    /// Returns the problem of a body that is not well-formed JSON at a place. The body itself is not repeated.
    pub fn malformed_json(TextPlace { line, column }: TextPlace) -> Self {
        let detail = format!(
            "The JSON is malformed at line {line}, column {column}. Send one JSON object in UTF-8: no duplicate \
             members, no byte order mark."
        );
        Self::new(Code::MalformedJson, detail)
    }

    /// Returns the problem of a body whose connection ended.
    pub fn body_incomplete() -> Self {
        let detail = "The body ended before it was complete.";
        Self::new(Code::MalformedJson, detail)
    }

    /// Returns the problem of a JSON body that is not an object.
    pub fn body_not_object() -> Self {
        Self::new(Code::BodyNotObject, "Send a JSON object: {…}.")
    }

    /// Returns the problem of a JSON body that is an array: perhaps of links, which a batch takes.
    pub fn body_is_array() -> Self {
        let detail = "Send a JSON object: {…}. Several links go to POST /v1/links/batch, as {\"items\": […]}.";
        Self::new(Code::BodyNotObject, detail)
    }

    /// Returns the problem of a cursor that is not valid for the list.
    pub fn invalid_cursor(detail: &str) -> Self {
        let error = json!({ "parameter": "cursor", "code": "invalid_cursor", "detail": detail });
        Self::new(Code::InvalidCursor, detail).with("errors", vec![error])
    }

    /// Returns the problem of a request without idempotency key.
    pub fn idempotency_key_missing() -> Self {
        Self::new(
            Code::IdempotencyKeyMissing,
            "Send the header Idempotency-Key: a new key for each new request, such as a UUID, and the same key for \
             each retry.",
        )
    }

    /// Returns the problem of an idempotency key of a create that is malformed or sent twice.
    pub fn idempotency_key_invalid() -> Self {
        Self::new(
            Code::IdempotencyKeyInvalid,
            "Send one Idempotency-Key: a UUID with hyphens, 36 characters long.",
        )
    }

    /// Returns the problem of an idempotency key of the admin API that is malformed or sent twice.
    pub fn admin_idempotency_key_invalid() -> Self {
        Self::new(
            Code::IdempotencyKeyInvalid,
            "Send one Idempotency-Key: 1 to 128 printable ASCII characters.",
        )
    }

    /// Returns the problem of a request without credentials.
    pub fn authentication_required() -> Self {
        let detail = "Send the header Authorization: Bearer <key>.";
        Self::new(Code::AuthenticationRequired, detail).with_header("www-authenticate", CHALLENGE)
    }

    /// Returns the same problem for a malformed, a mistyped and an unknown key. Refusing the first two without a
    /// look-up reveals no secret: the checksum is public.
    pub fn api_key_invalid() -> Self {
        Self::rejected_key(
            Code::ApiKeyInvalid,
            "Check the API key; it is no key of this service.",
        )
    }

    /// Returns the problem of a token that is no admin key of the service.
    pub fn admin_key_invalid() -> Self {
        Self::rejected_key(
            Code::ApiKeyInvalid,
            "Check the key; it is no admin key of this service. Admin keys begin with lla_.",
        )
    }

    /// Returns the problem of a key that has expired.
    pub fn api_key_expired() -> Self {
        Self::rejected_key(Code::ApiKeyExpired, "Use another key.")
    }

    /// Returns the problem of a key that was revoked.
    pub fn api_key_revoked() -> Self {
        Self::rejected_key(Code::ApiKeyRevoked, "Use another key.")
    }

    fn rejected_key(code: Code, detail: &str) -> Self {
        let challenge = format!("{CHALLENGE}, error=\"invalid_token\"");
        Self::new(code, detail).with_header("www-authenticate", challenge)
    }

    /// Returns the problem of a balance that does not cover a price.
    pub fn insufficient_credits(balance: i64, required: u64) -> Self {
        let detail = format!(
            "The price in credits is {required}; the balance is {balance}. Ask an operator to grant credits, then \
             retry."
        );
        Self::credits_below(balance, required, detail)
    }

    /// Returns the problem of an adjustment that would take more credits than there are.
    pub fn adjustment_exceeds_balance(balance: i64, required: u64) -> Self {
        let detail = format!(
            "The balance in credits is {balance}, less than {required}: an adjustment never makes it negative."
        );
        Self::credits_below(balance, required, detail)
    }

    fn credits_below(balance: i64, required: u64, detail: String) -> Self {
        Self::new(Code::InsufficientCredits, detail)
            .with("balance", balance)
            .with("required", required)
    }

    /// Returns the problem of a key that lacks a scope.
    pub fn insufficient_scope(scope: &str) -> Self {
        let challenge = format!("{CHALLENGE}, error=\"insufficient_scope\", scope=\"{scope}\"");
        let detail = format!("The key needs the scope {scope}.");
        Self::new(Code::InsufficientScope, detail)
            .with("required_scopes", vec![scope])
            .with_header("www-authenticate", challenge)
    }

    /// Returns the problem of a suspended account.
    pub fn account_suspended() -> Self {
        let detail = "An operator has suspended the account.";
        Self::new(Code::AccountSuspended, detail)
    }

    /// Returns the problem of an owner who enables a link that an operator has disabled.
    pub fn link_disabled_by_operator() -> Self {
        Self::new(
            Code::LinkDisabledByOperator,
            "An operator has disabled the link; contact the operator.",
        )
    }

    /// Returns the problem of an unknown path.
    pub fn route_not_found() -> Self {
        Self::new(
            Code::RouteNotFound,
            "Check the path; it is matched exactly.",
        )
    }

    /// Returns the problem of a path of the API that would be a short link on the short host.
    pub fn path_of_short_host(short_base_url: &str) -> Self {
        let detail = format!(
            "Check the path, which is matched exactly. Short links are at {short_base_url}."
        );
        Self::new(Code::RouteNotFound, detail)
    }

    /// Returns the problem of a path of the short host that belongs to the API.
    pub fn path_of_api(base_url: &str) -> Self {
        let detail = format!("The API is at {base_url}; here are only short links.");
        Self::new(Code::RouteNotFound, detail)
    }

    /// Returns the problem of an id that is no id, but perhaps the slug of a link. Depends on nothing but the text.
    pub fn slug_in_place_of_id(slug: &str) -> Self {
        let detail = format!(
            "Check the id, which begins with lnk_. If {slug} is a slug, GET /v1/links?slug={slug} finds the link and \
             its id."
        );
        Self::new(Code::LinkNotFound, detail)
    }

    /// Returns the problem of an id that is no link's of any account.
    pub fn link_of_no_account() -> Self {
        let detail = "Check the id; there is no such link.";
        Self::new(Code::LinkNotFound, detail)
    }

    /// Returns the same problem for a malformed id and an unknown id of an account.
    pub fn account_not_found() -> Self {
        let detail = "Check the id; there is no such account.";
        Self::new(Code::AccountNotFound, detail)
    }

    /// Returns the same problem for a malformed id and an unknown id of an API key.
    pub fn key_not_found() -> Self {
        let detail = "Check the id; there is no such API key.";
        Self::new(Code::KeyNotFound, detail)
    }

    /// Returns the problem of the code of a console session that is unknown, was used, or has expired.
    pub fn console_code_invalid() -> Self {
        let detail = "This link to the console was used, or is older than 60 s: open the console again from where you came.";
        Self::new(Code::ConsoleCodeInvalid, detail)
    }

    /// Returns the problem of an id that is no entry's of the account.
    pub fn entry_not_found() -> Self {
        let detail = "Check the id; the ledger of this account has no such entry.";
        Self::new(Code::EntryNotFound, detail)
    }

    /// Returns the problem of an entry of another type than `wanted`.
    pub fn entry_of_other_type(wanted: &str) -> Self {
        let detail = format!("Check the id; the entry is no {wanted}.");
        Self::new(Code::EntryNotFound, detail)
    }

    /// Returns the same problem for a malformed id, an unknown id and the id of another account's webhook.
    pub fn webhook_not_found() -> Self {
        let detail = "Check the id; there is no such webhook.";
        Self::new(Code::WebhookNotFound, detail)
    }

    /// Returns the same problem for a malformed id and an unknown id of a delivery.
    pub fn delivery_not_found() -> Self {
        let detail = "Check the id; the webhook has no such delivery.";
        Self::new(Code::DeliveryNotFound, detail)
    }

    /// Returns the problem of a path that allows other methods.
    pub fn method_not_allowed(allow: &str) -> Self {
        Self::new(Code::MethodNotAllowed, format!("Use one of: {allow}."))
            .with_header("allow", allow)
    }

    /// Returns the problem of a caller that accepts none of the media types of the route.
    pub fn not_acceptable(media_types: &[&str]) -> Self {
        let media_types = media_types.join(" or ");
        let detail = format!("Send Accept: {media_types}, or leave it out.");
        Self::new(Code::NotAcceptable, detail)
    }

    /// Returns the problem of a chosen slug that another link has.
    pub fn slug_taken(slug: &Slug) -> Self {
        let detail = format!(
            "A link has the slug {slug}, in this or another letter case: choose another slug, or leave out the slug to \
             get a generated slug. Slugs of deleted links stay taken."
        );
        Self::new(Code::SlugTaken, detail)
    }

    /// Returns the problem of an external id that another link of the account has: `holder`, or an earlier item of
    /// the same request.
    pub fn external_id_taken(holder: Option<&str>) -> Self {
        let detail = holder.map_or_else(
            || "An earlier item has this external_id: choose another external_id.".to_owned(),
            |link_id| {
                format!(
                    "The link {link_id} has this external_id: choose another external_id, or change that \
                     link first."
                )
            },
        );
        Self::new(Code::ExternalIdTaken, detail)
    }

    /// Returns the problem of an external id that another account has.
    pub fn external_id_of_account_taken(holder: &str) -> Self {
        let detail = format!(
            "The account {holder} has this external_id: choose another external_id, or change that account first."
        );
        Self::new(Code::ExternalIdTaken, detail)
    }

    /// Returns the problem of a charge that was given back before.
    pub fn already_refunded() -> Self {
        let detail = "This charge was refunded before; nothing was done.";
        Self::new(Code::AlreadyRefunded, detail)
    }

    /// Returns the problem of a grant that was taken back before.
    pub fn already_revoked() -> Self {
        let detail = "This grant was revoked before; nothing was done.";
        Self::new(Code::AlreadyRevoked, detail)
    }

    /// Returns the problem of an API key that is past its expiry or revocation; `because` says which.
    pub fn key_not_valid(because: &str) -> Self {
        let detail = format!("The API key {because}; issue a new key.");
        Self::new(Code::KeyNotValid, detail)
    }

    /// Returns the problem of one webhook too many.
    pub fn webhook_limit_reached(count_max: usize) -> Self {
        let detail =
            format!("There are {count_max} webhooks, the most there may be; delete one first.");
        Self::new(Code::WebhookLimitReached, detail)
    }

    /// Returns the problem of a replay while another one runs.
    pub fn replay_in_progress() -> Self {
        let detail = "A replay of this webhook is running; wait until is_replaying is false.";
        Self::new(Code::ReplayInProgress, detail)
    }

    /// Returns the problem of a message that a disabled webhook would not send.
    pub fn webhook_disabled() -> Self {
        let detail = "This webhook is disabled, and sends nothing; enable it first.";
        Self::new(Code::WebhookDisabled, detail)
    }

    /// Returns the problem of an installation without master keys.
    pub fn webhooks_off() -> Self {
        let detail = "This installation has no master keys for webhooks; contact the operator.";
        Self::new(Code::WebhooksOff, detail)
    }

    /// Returns the problem of a secret whose master key was removed.
    pub fn master_key_missing(master_key_id: &str) -> Self {
        let detail = format!(
            "The master key `{master_key_id}` of this secret is not in WEBHOOK_KEYS_FILE: rotate the secret."
        );
        Self::new(Code::WebhooksOff, detail)
    }

    /// Returns the problem of a cursor that was made before the log was restored from a backup.
    pub fn log_restored() -> Self {
        Self::new(
            Code::LogRestored,
            "The log was restored from a backup since; begin again with from as an instant before the one to which it was restored, or from the beginning.",
        )
    }

    /// Returns the problem of an idempotency key whose first request is still running.
    pub fn idempotency_key_in_use() -> Self {
        Self::new(
            Code::IdempotencyKeyInUse,
            "The first request with this key is still running; retry in a second.",
        )
        .retry_after(1)
    }

    /// Returns the problem of a short link that has expired, or was deleted or disabled. Visitors do not learn the
    /// reason.
    pub fn short_link_gone() -> Self {
        let detail = "The link has expired, was deleted or was taken out of service.";
        Self::new(Code::ShortLinkGone, detail)
    }

    /// Returns the problem of a link with another version than `If-Match` names; `etag` is the current version.
    pub fn etag_mismatch(etag: impl Into<String>) -> Self {
        Self::new(
            Code::EtagMismatch,
            "If-Match does not name the current version of the link; read the link again and send its ETag.",
        )
        .with_header("etag", etag)
    }

    /// Returns the problem of a body over `length_max` bytes.
    pub fn content_too_large(length_max: usize) -> Self {
        Self::new(
            Code::ContentTooLarge,
            format!("A body has at most {length_max} bytes."),
        )
    }

    /// Returns the problem of a path that, with its query, has over `length_max` bytes.
    pub fn uri_too_long(length_max: usize) -> Self {
        let detail = format!("A path with its query has at most {length_max} bytes.");
        Self::new(Code::UriTooLong, detail)
    }

    /// Returns the problem of a head with more headers or longer ones.
    pub fn headers_too_large(count_max: usize, length_max: usize) -> Self {
        let detail = format!("A request has at most {count_max} headers of {length_max} bytes.");
        Self::new(Code::HeadersTooLarge, detail)
    }

    /// Returns the problem of a request for a host that the server of `address` does not answer for.
    pub fn host_not_served(address: &str) -> Self {
        let detail = format!(
            "This is the server of {address}; send the request there. Operators name further hosts in ALLOWED_HOSTS."
        );
        Self::new(Code::HostNotServed, detail)
    }

    /// Returns the problem of a request to the admin API under a name by which other sites could reach it.
    pub fn host_of_admin_api_unknown() -> Self {
        let detail = "Send the request to an IP address or to a name without a dot. Operators allow further names \
                      with --admin-allowed-host (ADMIN_ALLOWED_HOSTS).";
        Self::new(Code::HostNotServed, detail)
    }

    /// Returns the problem of an `If-Match` that is no list of entity tags.
    pub fn if_match_malformed() -> Self {
        let detail = "Send If-Match as the ETag was received, with its double quotes, such as If-Match: \"2\", and \
                      commas between several; or If-Match: * for any version.";
        Self::invalid_header("If-Match", detail)
    }

    /// Returns the problem of a body of another media type; `media_type` is the usual one of the route.
    pub fn unsupported_media_type(media_type: &str) -> Self {
        let detail = format!("Send Content-Type: {media_type}.");
        Self::new(Code::UnsupportedMediaType, detail)
    }

    /// Returns the problem of a compressed body.
    pub fn unsupported_content_encoding() -> Self {
        let detail = "Send the body as it is, without Content-Encoding.";
        Self::new(Code::UnsupportedContentEncoding, detail)
            .with_header("accept-encoding", "identity")
    }

    /// Returns the problem of a key that was used with another body.
    pub fn idempotency_key_reused() -> Self {
        Self::new(
            Code::IdempotencyKeyReused,
            "This Idempotency-Key was used with another body; a different request needs a new key.",
        )
    }

    /// Returns the problem of an account with too many requests; `what` has to wait.
    pub fn rate_limited(seconds: u64, what: &str) -> Self {
        let detail = format!("Wait {seconds} s before {what}.");
        Self::new(Code::RateLimited, detail).retry_after(seconds)
    }

    /// Returns the problem of a full queue of commands.
    pub fn overloaded() -> Self {
        Self::new(Code::Overloaded, "Nothing was done; retry shortly.").retry_after(1)
    }

    /// Returns the problem of a read that needs events which the read tables lack. A `Consistency-Token` may name
    /// events that never happened, so the problem does not claim that they did.
    pub fn read_model_behind() -> Self {
        Self::new(
            Code::ReadModelBehind,
            "The read tables lag behind what this read must reflect; retry in a second.",
        )
        .retry_after(1)
    }

    /// Returns the problem of a command whose outcome is unknown at the deadline.
    pub fn deadline_exceeded() -> Self {
        Self::new(
            Code::DeadlineExceeded,
            "The request may have succeeded. Retry the same request, with the same Idempotency-Key if it has one.",
        )
        .with("may_have_succeeded", true)
        .retry_after(1)
    }
}
