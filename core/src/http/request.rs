//! What is known of a request from its head: its id, its trace, what it accepts and carries.

use axum::http::{
    HeaderMap, HeaderName, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST},
};

use crate::{
    clock::random_text,
    problem::{Code, Problem},
};

/// Largest request body, in bytes.
pub const BODY_LENGTH_MAX: usize = 16 * 1024;
/// The header under which a trace comes in (W3C Trace Context).
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const HEX: &[u8] = b"0123456789abcdef";

/// Identity of one request, made by us whatever the caller sends.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// Sent back as `X-Request-Id`.
    pub request_id: String,
    /// The caller's trace context if it is well-formed, else one of our own.
    pub traceparent: String,
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
            traceparent: given.map_or_else(|| format!("00-{trace_id}-{span_id}-01"), str::to_owned),
        }
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

/// Exactly one `Host`, at most one `Authorization`: two readers must not choose differently.
///
/// # Errors
/// `invalid_header`.
pub fn check_framing(headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let count = |name| headers.get_all(name).iter().count();
    match count(HOST) {
        // HTTP/1.1 in absolute form or HTTP/2 carry the host in the target.
        0 if uri.host().is_none() => Err(Problem::invalid_header(
            "Host",
            "The Host header is missing.",
        )),
        0 | 1 if count(AUTHORIZATION) > 1 => Err(Problem::invalid_header(
            "Authorization",
            "The Authorization header stands there more than once.",
        )),
        0 | 1 => Ok(()),
        _ => Err(Problem::invalid_header(
            "Host",
            "The Host header stands there more than once.",
        )),
    }
}

/// No query parameters are known here.
///
/// # Errors
/// `invalid_parameter` names the first one.
pub fn check_no_query(uri: &Uri) -> Result<(), Problem> {
    match query_parameters(uri).first() {
        None => Ok(()),
        Some((name, _)) => Err(unknown_parameter(name)),
    }
}

/// The decoded query parameters, in order.
pub fn query_parameters(uri: &Uri) -> Vec<(String, String)> {
    url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
        .into_owned()
        .collect()
}

/// The problem of a parameter that is not known here.
pub fn unknown_parameter(name: &str) -> Problem {
    let shown: String = name.chars().take(64).collect();
    Problem::invalid_parameter(
        &shown,
        "unknown_parameter",
        "There is no such query parameter.",
    )
}

/// Answers are JSON: something in `Accept` must allow that. A malformed header allows all.
///
/// # Errors
/// `not_acceptable`.
pub fn check_accept(headers: &HeaderMap) -> Result<(), Problem> {
    let ranges: Vec<&str> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|range| range.contains('/'))
        .collect();
    if ranges.is_empty() || ranges.iter().any(|range| allows_json(range)) {
        return Ok(());
    }
    Err(Problem::new(
        Code::NotAcceptable,
        "Send Accept: application/json, or leave it out.",
    ))
}

fn allows_json(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
    let is_refused = parts.any(|parameter| {
        let weight = parameter
            .strip_prefix("q=")
            .or_else(|| parameter.strip_prefix("Q="));
        weight
            .and_then(|weight| weight.parse::<f32>().ok())
            .is_some_and(|weight| weight <= 0.0)
    });
    let is_json = [
        "*/*",
        "application/*",
        "application/json",
        "application/problem+json",
    ]
    .contains(&media_type.as_str());
    is_json && !is_refused
}

/// The media types of a body, and the header that names them to whoever sent another.
struct AcceptedBody {
    media_types: &'static [&'static str],
    header: &'static str,
}

const JSON: AcceptedBody = AcceptedBody {
    media_types: &["application/json"],
    header: "accept-post",
};
/// RFC 7396; plain JSON is read in the same way.
const MERGE_PATCH: AcceptedBody = AcceptedBody {
    media_types: &["application/merge-patch+json", "application/json"],
    header: "accept-patch",
};

/// The body must be plain JSON in UTF-8, and not announced as too large.
///
/// # Errors
/// `unsupported_media_type`, `unsupported_content_encoding` or `content_too_large`.
pub fn check_json_body(headers: &HeaderMap) -> Result<(), Problem> {
    JSON.check(headers)
}

/// As [`check_json_body`]; the media type of a merge patch is taken too.
///
/// # Errors
/// As [`check_json_body`].
pub fn check_merge_patch_body(headers: &HeaderMap) -> Result<(), Problem> {
    MERGE_PATCH.check(headers)
}

impl AcceptedBody {
    fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if !single(headers, &CONTENT_TYPE).is_some_and(|given| self.accepts(given)) {
            let detail = format!("Send Content-Type: {}.", self.media_types[0]);
            return Err(Problem::new(Code::UnsupportedMediaType, detail)
                .with_header(self.header, self.media_types.join(", ")));
        }
        let is_plain = headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"));
        if !is_plain {
            let detail = "Send the body without Content-Encoding.";
            return Err(Problem::new(Code::UnsupportedContentEncoding, detail)
                .with_header("accept-encoding", "identity"));
        }
        let announced =
            single(headers, &CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
        if announced.is_some_and(|length| length > BODY_LENGTH_MAX as u64) {
            return Err(content_too_large());
        }
        Ok(())
    }

    /// JSON is UTF-8, and no other parameter has a meaning.
    fn accepts(&self, content_type: &str) -> bool {
        let mut parts = content_type.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let is_known = self
            .media_types
            .iter()
            .any(|known| known.eq_ignore_ascii_case(media_type));
        is_known
            && parts
                .filter(|parameter| !parameter.is_empty())
                .all(|parameter| {
                    let parameter = parameter.to_ascii_lowercase();
                    matches!(parameter.as_str(), "charset=utf-8" | "charset=\"utf-8\"")
                })
    }
}

/// The problem of a body over [`BODY_LENGTH_MAX`].
pub fn content_too_large() -> Problem {
    Problem::new(
        Code::ContentTooLarge,
        format!("A body has at most {BODY_LENGTH_MAX} bytes."),
    )
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(entries: &[(HeaderName, &str)]) -> HeaderMap {
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
    fn only_plain_json_bodies_are_taken() {
        let code = |entries: &[(HeaderName, &str)]| {
            check_json_body(&headers(entries))
                .err()
                .map(|problem| problem.code)
        };
        for accepted in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "application/json;",
        ] {
            assert_eq!(code(&[(CONTENT_TYPE, accepted)]), None, "{accepted}");
        }
        for refused in [
            "text/plain",
            "application/json; charset=latin1",
            "application/problem+json",
            "application/x-www-form-urlencoded",
        ] {
            let expected = Some(Code::UnsupportedMediaType);
            assert_eq!(code(&[(CONTENT_TYPE, refused)]), expected, "{refused}");
        }
        assert_eq!(code(&[]), Some(Code::UnsupportedMediaType));
        let json = (CONTENT_TYPE, "application/json");
        let encoded = code(&[json.clone(), (CONTENT_ENCODING, "gzip")]);
        assert_eq!(encoded, Some(Code::UnsupportedContentEncoding));
        assert_eq!(code(&[json.clone(), (CONTENT_ENCODING, "identity")]), None);
        assert_eq!(code(&[json.clone(), (CONTENT_LENGTH, "16384")]), None);
        assert_eq!(
            code(&[json, (CONTENT_LENGTH, "16385")]),
            Some(Code::ContentTooLarge)
        );
    }

    #[test]
    fn a_merge_patch_may_be_named_so_but_only_where_it_is_one() {
        let patch = headers(&[(CONTENT_TYPE, "Application/Merge-Patch+JSON; charset=utf-8")]);
        assert!(check_merge_patch_body(&patch).is_ok());
        assert!(check_merge_patch_body(&headers(&[(CONTENT_TYPE, "application/json")])).is_ok());
        assert!(check_json_body(&patch).is_err());
        let problem = check_merge_patch_body(&HeaderMap::new()).unwrap_err();
        assert_eq!(problem.code, Code::UnsupportedMediaType);
        let accepted = "application/merge-patch+json, application/json";
        assert_eq!(problem.headers, [("accept-patch", accepted.to_owned())]);
    }

    #[test]
    fn accept_must_allow_json() {
        for (accept, is_acceptable) in [
            ("*/*", true),
            ("application/json", true),
            ("text/html, application/*;q=0.1", true),
            (";;;", true),
            ("text/html", false),
            ("application/json;q=0", false),
        ] {
            let result = check_accept(&headers(&[(ACCEPT, accept)]));
            assert_eq!(result.is_ok(), is_acceptable, "{accept}");
        }
        assert!(check_accept(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn a_doubled_authorization_is_refused_even_if_both_are_equal() {
        let mut doubled = headers(&[(HOST, "h"), (AUTHORIZATION, "Bearer a")]);
        let uri = Uri::from_static("/v1/links");
        assert!(check_framing(&doubled, &uri).is_ok());
        doubled.append(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        assert!(check_framing(&doubled, &uri).is_err());
        assert!(check_framing(&headers(&[]), &uri).is_err());
        assert!(check_framing(&headers(&[]), &Uri::from_static("http://h/")).is_ok());
    }
}
