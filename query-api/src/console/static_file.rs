//! A file of a console: compressed once, when it is first asked for, and sent compressed to callers that accept gzip.

use std::{
    io::{self, Write as _},
    sync::OnceLock,
};

use axum::{
    body::Bytes,
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, VARY},
    },
    response::{IntoResponse, Response},
};
use flate2::{Compression, write::GzEncoder};
use linkledger_http::entity_tag;

const GZIP: &str = "gzip";

/// A file compiled into the program.
pub(super) struct StaticFile {
    content_type: &'static str,
    plain: Representation,
    gzip: OnceLock<Option<Representation>>,
}

/// Bytes of a body with their entity tag: each encoding has a tag of its own (RFC 9110, 8.8.3.3).
struct Representation {
    body: Bytes,
    entity_tag: String,
}

impl Representation {
    fn new(body: Bytes) -> Self {
        let entity_tag = entity_tag::of_content(&body);
        Self { body, entity_tag }
    }
}

impl StaticFile {
    pub(super) fn new(content_type: &'static str, content: &'static str) -> Self {
        Self {
            content_type,
            plain: Representation::new(Bytes::from_static(content.as_bytes())),
            gzip: OnceLock::new(),
        }
    }

    /// Answers a request: 304 if the caller has the file already.
    pub(super) fn answer(&self, request: &HeaderMap) -> Response {
        let gzip = accepts_gzip(request).then(|| self.gzip()).flatten();
        let chosen = gzip.unwrap_or(&self.plain);
        let headers: [(HeaderName, &str); 4] = [
            (CONTENT_TYPE, self.content_type),
            // A release may change the file: browsers revalidate it each time.
            (CACHE_CONTROL, "no-cache"),
            (VARY, "accept-encoding"),
            (ETAG, &chosen.entity_tag),
        ];
        if entity_tag::if_none_match_names(request, &chosen.entity_tag) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        let mut response = (headers, chosen.body.clone()).into_response();
        if gzip.is_some() {
            let encoding = HeaderValue::from_static(GZIP);
            response.headers_mut().insert(CONTENT_ENCODING, encoding);
        }
        response
    }

    /// Returns the compressed file; nothing if it cannot be compressed.
    fn gzip(&self) -> Option<&Representation> {
        let compressed = self.gzip.get_or_init(|| match compress(&self.plain.body) {
            Ok(body) => Some(Representation::new(body.into())),
            Err(error) => {
                tracing::warn!(%error, "cannot compress a file of a console; it is sent as it is");
                None
            }
        });
        compressed.as_ref()
    }
}

fn compress(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    encoder.finish()
}

/// Returns true if `Accept-Encoding` names gzip with a weight other than 0 (RFC 9110, 12.5.3). Malformed members are
/// ignored.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let values = request.get_all(ACCEPT_ENCODING).iter();
    let members = values.filter_map(|value| value.to_str().ok());
    members.flat_map(|list| list.split(',')).any(|member| {
        let (coding, weight) = member.split_once(';').unwrap_or((member, "q=1"));
        let weight = weight.trim().strip_prefix(['q', 'Q']).map(str::trim_start);
        let weight = weight.and_then(|weight| weight.strip_prefix('='));
        let weight = weight.and_then(|weight| weight.trim().parse::<f32>().ok());
        coding.trim().eq_ignore_ascii_case(GZIP) && weight.is_some_and(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_accepted_if_named_with_a_weight() {
        for (value, is_accepted) in [
            ("gzip, deflate, br, zstd", true),
            ("br;q=1.0, GZIP;q=0.5", true),
            ("gzip ; q=0.001", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000, identity", false),
            ("gzip;level=9", false),
            ("x-gzip, gzipped", false),
            ("identity", false),
            ("*", false),
            ("", false),
        ] {
            let mut request = HeaderMap::new();
            assert!(!accepts_gzip(&request), "without the header");
            request.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&request), is_accepted, "{value}");
        }
    }
}
