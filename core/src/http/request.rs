//! What is known of a request from its head: its id, its trace, what it accepts and carries.

mod accept;
mod body;
mod query;

use std::ops::Range;

use axum::http::{
    HeaderMap, HeaderName, Uri,
    header::{AUTHORIZATION, HOST},
    uri::Authority,
};

use crate::{
    clock::random_text,
    id::LinkId,
    problem::{Code, Problem},
};

pub use accept::{Preference, check_accept};
pub use body::{BODY_LENGTH_MAX, check_json_body, check_merge_patch_body, content_too_large};
pub use query::{BadlyEncoded, check_no_query, query_parameters};

/// Longest path with its query, in bytes.
const URI_LENGTH_MAX: usize = 8 * 1024;
/// Most headers of a request.
const HEADERS_MAX: usize = 64;
/// Longest names and values of all headers together, in bytes.
const HEADERS_LENGTH_MAX: usize = 16 * 1024;
/// The header under which a trace comes in (W3C Trace Context).
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Where the trace id stands in a `traceparent`.
const TRACE_ID: Range<usize> = 3..35;
const HEX: &[u8] = b"0123456789abcdef";

/// Identity of one request, made by us whatever the caller sends.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// Sent back as `X-Request-Id`.
    pub request_id: String,
    /// The caller's trace context if it is well-formed, else one of our own.
    pub traceparent: String,
    /// Whether it is the caller's.
    pub(super) continues_trace: bool,
}

impl RequestContext {
    /// The identity of a request with these headers.
    pub fn of(headers: &HeaderMap) -> Self {
        let random = random_text(HEX, 48);
        let (trace_id, rest) = random.split_at(32);
        let (span_id, _) = rest.split_at(16);
        let given = single(headers, &TRACEPARENT).filter(|value| is_traceparent(value));
        Self {
            request_id: format!(
                "req_{}",
                random_text(b"0123456789abcdefghjkmnpqrstvwxyz", 20)
            ),
            continues_trace: given.is_some(),
            traceparent: given.map_or_else(|| format!("00-{trace_id}-{span_id}-01"), str::to_owned),
        }
    }
}

impl RequestContext {
    /// The trace that the request belongs to, for logs.
    pub fn trace_id(&self) -> &str {
        &self.traceparent[TRACE_ID]
    }
}

/// The value of a header that stands there exactly once, as text.
pub fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        None
    } else {
        value.to_str().ok()
    }
}

/// Version 00 only, lower case, no zero ids.
fn is_traceparent(value: &str) -> bool {
    let is_hex =
        |part: &str, length| part.len() == length && part.bytes().all(|byte| HEX.contains(&byte));
    let is_id = |part: &str, length| is_hex(part, length) && part.bytes().any(|byte| byte != b'0');
    match value.split('-').collect::<Vec<_>>()[..] {
        ["00", trace_id, span_id, flags] => {
            is_id(trace_id, 32) && is_id(span_id, 16) && is_hex(flags, 2)
        }
        _ => false,
    }
}

/// The head has a bounded length, exactly one `Host`, which can be one, and at most one
/// `Authorization`: two readers must not choose differently.
///
/// # Errors
/// `uri_too_long`, `headers_too_large` or `invalid_header`.
pub fn check_framing(headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    check_lengths(headers, uri)?;
    let count = |name| headers.get_all(name).iter().count();
    let (header, detail) = match (count(HOST), count(AUTHORIZATION)) {
        (1, 0 | 1) if names_host(headers) => return Ok(()),
        (1, 0 | 1) => (
            "Host",
            "The Host header must be a host name, perhaps with a port.",
        ),
        // Also when the target is an absolute address (RFC 9112, 3.2).
        (0, _) => ("Host", "The Host header is missing."),
        (1, _) => (
            "Authorization",
            "The Authorization header stands there more than once.",
        ),
        (_, _) => ("Host", "The Host header stands there more than once."),
    };
    Err(Problem::invalid_header(header, detail))
}

/// A host, perhaps a port, and nobody's name before it (RFC 9112, 3.2).
fn names_host(headers: &HeaderMap) -> bool {
    let authority = single(headers, &HOST).and_then(|host| host.parse::<Authority>().ok());
    authority.is_some_and(|it| !it.host().is_empty() && !it.as_str().contains('@'))
}

fn check_lengths(headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let uri_length = uri
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    if uri_length > URI_LENGTH_MAX {
        let detail = format!("A path with its query has at most {URI_LENGTH_MAX} bytes.");
        return Err(Problem::new(Code::UriTooLong, detail));
    }
    let lengths = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    if headers.len() > HEADERS_MAX || lengths.sum::<usize>() > HEADERS_LENGTH_MAX {
        let detail =
            format!("A request has at most {HEADERS_MAX} headers of {HEADERS_LENGTH_MAX} bytes.");
        return Err(Problem::new(Code::HeadersTooLarge, detail));
    }
    Ok(())
}

/// The link that the last part of the path names, as it was sent: an id has one spelling, and a
/// percent sign is in none.
pub fn link_id(uri: &Uri) -> Option<LinkId> {
    let (_, id) = uri.path().rsplit_once('/')?;
    id.parse().ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    pub(super) fn headers(entries: &[(HeaderName, &str)]) -> HeaderMap {
        let value = |text: &str| HeaderValue::from_str(text).unwrap();
        entries
            .iter()
            .map(|(name, text)| (name.clone(), value(text)))
            .collect()
    }

    #[test]
    fn a_well_formed_trace_is_continued_and_any_other_replaced() {
        let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = RequestContext::of(&headers(&[(TRACEPARENT, given)]));
        assert_eq!(context.traceparent, given);
        for bad in [
            "",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            let context = RequestContext::of(&headers(&[(TRACEPARENT, bad)]));
            assert_ne!(context.traceparent, bad);
            assert!(
                is_traceparent(&context.traceparent),
                "{}",
                context.traceparent
            );
        }
    }

    #[test]
    fn a_doubled_authorization_is_refused_even_if_both_are_equal() {
        let mut doubled = headers(&[(HOST, "h"), (AUTHORIZATION, "Bearer a")]);
        let uri = Uri::from_static("/v1/links");
        assert!(check_framing(&doubled, &uri).is_ok());
        doubled.append(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        assert!(check_framing(&doubled, &uri).is_err());
        assert!(check_framing(&headers(&[]), &uri).is_err());
        assert!(check_framing(&headers(&[]), &Uri::from_static("http://h/")).is_err());
    }

    #[test]
    fn a_host_is_a_name_or_an_ip_address_perhaps_with_a_port() {
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
    fn a_head_has_its_bounds() {
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
