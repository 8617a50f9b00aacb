//! Properties of a request's head: id, trace, accepted types and content.

mod accept;
mod body;
mod context;
mod idempotency_key;
mod query;

use std::str::FromStr;

use axum::http::{
    HeaderMap, HeaderName, Method, Request, Uri,
    header::{AUTHORIZATION, HOST},
    request::Parts,
    uri::Authority,
};

use super::route_table;
use crate::problem::Problem;
use linkledger_core::{
    account::parse_external_id,
    id::{AccountId, DeliveryId, KeyId, LinkId, WebhookId},
    link::Slug,
    percent,
};

pub use accept::{MediaType, MediaTypePreference, accepted, check_accept};
pub use body::AcceptedBody;
pub use context::RequestContext;
pub use idempotency_key::{ADMIN_KEY_LENGTH_MAX, admin_idempotency_key};
pub use query::{BadlyEncoded, check_no_query, query_parameters};

/// Maximal length of the path with its query, in bytes.
const URI_LENGTH_MAX: usize = 8 * 1024;
/// Maximal number of headers of a request.
const HEADERS_MAX: usize = 64;
/// Maximal length of the names and values of all headers together, in bytes.
const HEADERS_LENGTH_MAX: usize = 16 * 1024;

/// Method, target and headers of a request: implemented for an owned [`Request`] and a borrowed
/// [`Parts`].
pub trait RequestHead {
    /// Returns the method.
    fn method(&self) -> &Method;
    /// Returns the target.
    fn uri(&self) -> &Uri;
    /// Returns the headers.
    fn headers(&self) -> &HeaderMap;
}

impl<B> RequestHead for Request<B> {
    fn method(&self) -> &Method {
        self.method()
    }
    fn uri(&self) -> &Uri {
        self.uri()
    }
    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

impl RequestHead for &Parts {
    fn method(&self) -> &Method {
        &self.method
    }
    fn uri(&self) -> &Uri {
        &self.uri
    }
    fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

/// Returns the value of a header as text, if the header occurs exactly once.
pub fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        None
    } else {
        value.to_str().ok()
    }
}

/// Checks the head: bounded length, exactly one valid `Host`, and at most one `Authorization`. Two
/// readers of a request must never disagree about it.
///
/// # Errors
/// Returns `uri_too_long`, `headers_too_large` or `invalid_header`.
pub fn check_framing(headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    check_lengths(headers, uri)?;
    let count = |name| headers.get_all(name).iter().count();
    let (header, detail) = match (count(HOST), count(AUTHORIZATION)) {
        (1, 0 | 1) if names_host(headers) => return Ok(()),
        (1, 0 | 1) => (
            "Host",
            "The Host header must be a host name, perhaps with a port.",
        ),
        // Also if the target is an absolute address (RFC 9112, 3.2).
        (0, _) => ("Host", "The Host header is missing."),
        (1, _) => (
            "Authorization",
            "The Authorization header occurs more than once.",
        ),
        (_, _) => ("Host", "The Host header occurs more than once."),
    };
    Err(Problem::invalid_header(header, detail))
}

/// Returns true for a host and perhaps a port, without a user name (RFC 9112, 3.2).
fn names_host(headers: &HeaderMap) -> bool {
    let Some(host) = single(headers, &HOST) else {
        return false;
    };
    // Fast path: nearly every host is plain and need not be parsed.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    if !host.is_empty() && host.bytes().all(is_plain) {
        return true;
    }
    let authority = host.parse::<Authority>();
    authority
        .is_ok_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'))
}

fn check_lengths(headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let uri_length = uri
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    if uri_length > URI_LENGTH_MAX {
        return Err(Problem::uri_too_long(URI_LENGTH_MAX));
    }
    let lengths = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    if headers.len() > HEADERS_MAX || lengths.sum::<usize>() > HEADERS_LENGTH_MAX {
        return Err(Problem::headers_too_large(HEADERS_MAX, HEADERS_LENGTH_MAX));
    }
    Ok(())
}

/// Parses the part of the path after `/v1/links/` as a link id. Ids have one spelling and contain no
/// percent sign, so the part is not decoded.
///
/// # Errors
/// Returns `link_not_found` if the part is no id.
pub fn link_id(uri: &Uri) -> Result<LinkId, Problem> {
    let text = part_after(uri, route_table::LINKS).unwrap_or_default();
    text.parse().map_err(|_| {
        let is_mistyped_id = text
            .get(..4)
            .is_some_and(|begin| begin.eq_ignore_ascii_case("lnk_"));
        match Slug::parse_stored(text) {
            Ok(slug) if !is_mistyped_id => Problem::slug_in_place_of_id(slug.as_str()),
            _ => Problem::link_not_found(),
        }
    })
}

/// Parses the part of a path of the admin API after `/admin/v1/accounts/` as an account id.
///
/// # Errors
/// Returns `account_not_found` if the part is no id.
pub fn account_id(uri: &Uri) -> Result<AccountId, Problem> {
    id_after(uri, route_table::ADMIN_ACCOUNTS).ok_or_else(Problem::account_not_found)
}

/// Parses the part of a path of the admin API after `/admin/v1/accounts/by-external-id/`, which is percent-encoded;
/// returns `None` if it is no external id of an account.
pub fn account_external_id(uri: &Uri) -> Option<String> {
    let part = part_after(uri, route_table::ADMIN_ACCOUNTS_BY_EXTERNAL_ID)?;
    let decoded = String::from_utf8(percent::decode(part)?).ok()?;
    parse_external_id(&decoded)
}

/// Parses the part of a path of the admin API after `/admin/v1/keys/` as the id of an API key.
///
/// # Errors
/// Returns `key_not_found` if the part is no id.
pub fn key_id(uri: &Uri) -> Result<KeyId, Problem> {
    id_after(uri, route_table::ADMIN_KEYS).ok_or_else(Problem::key_not_found)
}

/// Parses the part of a path of the admin API after `/admin/v1/links/` as a link id.
///
/// # Errors
/// Returns `link_not_found` if the part is no id.
pub fn admin_link_id(uri: &Uri) -> Result<LinkId, Problem> {
    id_after(uri, route_table::ADMIN_LINKS).ok_or_else(Problem::link_of_no_account)
}

/// Parses the part of a path of either API after `webhooks/` as the id of a webhook.
///
/// # Errors
/// Returns `webhook_not_found` if the part is no id.
pub fn webhook_id(uri: &Uri) -> Result<WebhookId, Problem> {
    let collections = [route_table::WEBHOOKS, route_table::ADMIN_WEBHOOKS];
    let id = collections
        .iter()
        .find_map(|collection| id_after(uri, collection));
    id.ok_or_else(Problem::webhook_not_found)
}

/// Parses the part of a path of either API after `deliveries/` as the id of a delivery.
///
/// # Errors
/// Returns `delivery_not_found` if the part is no id.
pub fn delivery_id(uri: &Uri) -> Result<DeliveryId, Problem> {
    let part = uri.path().split_once("/deliveries/");
    let part = part.and_then(|(_, rest)| rest.split('/').next());
    let id = part.and_then(|part| part.parse().ok());
    id.ok_or_else(Problem::delivery_not_found)
}

fn id_after<T: FromStr>(uri: &Uri, collection: &str) -> Option<T> {
    part_after(uri, collection)?.parse().ok()
}

/// Returns the part of the path that follows the collection, not decoded.
pub fn part_after<'a>(uri: &'a Uri, collection: &str) -> Option<&'a str> {
    let rest = uri.path().strip_prefix(collection)?;
    rest.strip_prefix('/')?.split('/').next()
}

#[cfg(test)]
pub(crate) mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::problem::Code;

    pub(crate) fn headers(entries: &[(HeaderName, &str)]) -> HeaderMap {
        let value = |text: &str| HeaderValue::from_str(text).unwrap();
        entries
            .iter()
            .map(|(name, text)| (name.clone(), value(text)))
            .collect()
    }

    #[test]
    fn repeated_authorization_header_is_refused() {
        let mut doubled = headers(&[(HOST, "h"), (AUTHORIZATION, "Bearer a")]);
        let uri = Uri::from_static("/v1/links");
        assert!(check_framing(&doubled, &uri).is_ok());
        doubled.append(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        assert!(check_framing(&doubled, &uri).is_err());
        assert!(check_framing(&headers(&[]), &uri).is_err());
        assert!(check_framing(&headers(&[]), &Uri::from_static("http://h/")).is_err());
    }

    #[test]
    fn host_is_name_or_address_with_port() {
        for (host, is_host) in [
            ("h", true),
            ("api.example.com:8080", true),
            ("127.0.0.1", true),
            ("[::1]:8080", true),
            ("", false),
            (":8080", false),
            ("a b", false),
            ("a, b", false),
            ("u:p@h", false),
            ("h/", false),
            ("http://h", false),
        ] {
            let checked = check_framing(&headers(&[(HOST, host)]), &Uri::from_static("/"));
            assert_eq!(checked.is_ok(), is_host, "{host}");
        }
    }

    #[test]
    fn slug_in_place_of_id_is_told() {
        let id = LinkId::from_uuid(uuid::Uuid::from_u128(7)).to_string();
        let parse = |text: &str| link_id(&format!("/v1/links/{text}/clicks").parse().unwrap());
        assert_eq!(parse(&id).unwrap().to_string(), id);
        for slug in ["spring-sale", "Spring_Sale", "lnk-1", "acc_1"] {
            let problem = parse(slug).unwrap_err();
            assert_eq!(problem.code, Code::LinkNotFound);
            let finds = format!("GET /v1/links?slug={slug} ");
            assert!(problem.detail.contains(&finds), "{}", problem.detail);
        }
        // What no slug can be, and an id with a mistake, is answered as an unknown id.
        for text in [
            "",
            "-x",
            "a%20b",
            &id.to_uppercase(),
            &id[..id.len() - 1],
            "lnk_",
        ] {
            assert_eq!(parse(text), Err(Problem::link_not_found()), "{text}");
        }
    }

    #[test]
    fn id_in_path_of_admin_api_has_one_spelling() {
        let id = AccountId::from_uuid(uuid::Uuid::from_u128(7)).to_string();
        let parse = |text: &str| account_id(&format!("/admin/v1/accounts/{text}").parse().unwrap());
        for text in [id.clone(), format!("{id}/keys")] {
            assert_eq!(parse(&text).unwrap().to_string(), id);
        }
        for text in ["", "acc_", "a%20b", &id.to_uppercase(), &id[1..]] {
            assert_eq!(parse(text), Err(Problem::account_not_found()), "{text}");
        }
    }

    #[test]
    fn ids_of_webhook_and_delivery_are_found_in_both_apis() {
        let uuid = uuid::Uuid::from_u128(7);
        let webhook = WebhookId::from_uuid(uuid);
        let delivery = DeliveryId::from_uuid(uuid);
        for begin in ["", "/admin"] {
            let path = format!("{begin}/v1/webhooks/{webhook}/deliveries/{delivery}/retry");
            let uri: Uri = path.parse().unwrap();
            assert_eq!(webhook_id(&uri), Ok(webhook));
            assert_eq!(delivery_id(&uri), Ok(delivery));
        }
        for path in [
            "/v1/webhooks/x/deliveries/x",
            "/v1/webhooks/",
            "/v2/webhooks/x",
        ] {
            let uri: Uri = path.parse().unwrap();
            assert_eq!(webhook_id(&uri), Err(Problem::webhook_not_found()));
            assert_eq!(delivery_id(&uri), Err(Problem::delivery_not_found()));
        }
    }

    #[test]
    fn external_id_in_path_is_decoded_once() {
        let parse = |part: &str| {
            let path = format!("/admin/v1/accounts/by-external-id/{part}");
            account_external_id(&path.parse().unwrap())
        };
        for (part, external_id) in [
            ("4711", "4711"),
            ("customers%2F4711", "customers/4711"),
            ("kim@example.com", "kim@example.com"),
            ("a%3Ab", "a:b"),
        ] {
            assert_eq!(parse(part).as_deref(), Some(external_id), "{part}");
        }
        let too_long = "x".repeat(129);
        for part in [
            "%20", "a%2", "%252F", "%C3%A4", "%ff", "a+b", "a,b", "%00", "%2e", "..", &too_long,
        ] {
            assert_eq!(parse(part), None, "{part}");
        }
    }

    #[test]
    fn request_heads_are_bounded() {
        let check = |headers: &HeaderMap, path: &str| {
            let checked = check_framing(headers, &path.parse().unwrap());
            checked.map_err(|problem| problem.code)
        };
        let path = |length: usize| format!("/{}", "x".repeat(length - 1));
        let plain = headers(&[(HOST, "h")]);
        assert_eq!(check(&plain, &path(8_192)), Ok(()));
        assert_eq!(check(&plain, &path(8_193)), Err(Code::UriTooLong));

        let mut many = plain.clone();
        for number in 0..63 {
            let name = HeaderName::try_from(format!("x-{number}")).unwrap();
            many.insert(name, HeaderValue::from_static(""));
        }
        assert_eq!(check(&many, "/"), Ok(()));
        many.append("x-0", HeaderValue::from_static(""));
        assert_eq!(check(&many, "/"), Err(Code::HeadersTooLarge));

        let long = |length: usize| {
            let value = "x".repeat(length - "hosth".len() - "x-long".len());
            let mut headers = plain.clone();
            headers.insert("x-long", value.parse().unwrap());
            headers
        };
        assert_eq!(check(&long(16_384), "/"), Ok(()));
        assert_eq!(check(&long(16_385), "/"), Err(Code::HeadersTooLarge));
    }
}
