//! Checks of the headers that describe a request's body.

use axum::http::{
    HeaderMap,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING},
};

use super::single;
use crate::problem::{Code, Problem};

/// Body that a route accepts.
pub struct AcceptedBody {
    media_types: &'static [&'static str],
    /// Response header that lists the media types after another type.
    header: &'static str,
    /// Maximal length, in bytes.
    pub length_max: usize,
}

impl AcceptedBody {
    /// Plain JSON.
    pub const JSON: Self = Self {
        media_types: &["application/json"],
        header: "accept-post",
        length_max: 32 * 1024,
    };
    /// Plain JSON of a client without a key: no more memory than its connection has anyway.
    pub const SHORT: Self = Self {
        length_max: 4 * 1024,
        ..Self::JSON
    };
    /// Plain JSON of a batch.
    pub const BATCH: Self = Self {
        length_max: 256 * 1024,
        ..Self::JSON
    };
    /// Merge patches (RFC 7396); plain JSON is read in the same way.
    pub const MERGE_PATCH: Self = Self {
        media_types: &["application/merge-patch+json", "application/json"],
        header: "accept-patch",
        ..Self::JSON
    };

    /// Checks that the body is plain JSON in UTF-8, and that its declared length is within the limit.
    ///
    /// # Errors
    /// Returns `unsupported_media_type`, `unsupported_content_encoding` or `content_too_large`.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if !single(headers, &CONTENT_TYPE).is_some_and(|given| self.accepts(given)) {
            return Err(Problem::unsupported_media_type(self.media_types[0])
                .with_header(self.header, self.media_types.join(", ")));
        }
        check_plain(headers)?;
        let announced =
            single(headers, &CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
        if announced.is_some_and(|length| length > self.length_max as u64) {
            return Err(Problem::content_too_large(self.length_max));
        }
        Ok(())
    }

    /// Returns true for a known media type. JSON is UTF-8; no other parameter has a meaning.
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

/// Checks that neither the content nor the transfer is compressed.
fn check_plain(headers: &HeaderMap) -> Result<(), Problem> {
    let all = |name, plain: &[u8]| {
        let mut values = headers.get_all(name).iter();
        values.all(|value| value.as_bytes().eq_ignore_ascii_case(plain))
    };
    if !all(CONTENT_ENCODING, b"identity") {
        return Err(Problem::unsupported_content_encoding());
    }
    if !all(TRANSFER_ENCODING, b"chunked") {
        let detail = "Send the body as it is; the only supported Transfer-Encoding is chunked.";
        return Err(Problem::new(Code::UnsupportedContentEncoding, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::{super::tests::headers, *};

    #[test]
    fn only_plain_json_bodies_are_accepted() {
        let code = |entries: &[(HeaderName, &str)]| {
            AcceptedBody::JSON
                .check(&headers(entries))
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
        assert_eq!(code(&[json.clone(), (TRANSFER_ENCODING, "chunked")]), None);
        assert_eq!(code(&[json.clone(), (CONTENT_ENCODING, "identity")]), None);
        assert_eq!(code(&[json.clone(), (CONTENT_LENGTH, "32768")]), None);
        assert_eq!(
            code(&[json, (CONTENT_LENGTH, "32769")]),
            Some(Code::ContentTooLarge)
        );
    }

    #[test]
    fn only_batches_may_have_long_bodies() {
        let of_length =
            |length| headers(&[(CONTENT_TYPE, "application/json"), (CONTENT_LENGTH, length)]);
        assert!(AcceptedBody::BATCH.check(&of_length("262144")).is_ok());
        let problem = AcceptedBody::BATCH.check(&of_length("262145")).unwrap_err();
        assert_eq!(problem.detail, "A body has at most 262144 bytes.");
        assert!(
            AcceptedBody::MERGE_PATCH
                .check(&of_length("32769"))
                .is_err()
        );
    }

    #[test]
    fn compression_header_is_named() {
        let json = (CONTENT_TYPE, "application/json");
        for (name, encoding, named) in [
            (CONTENT_ENCODING, "gzip", "Content-Encoding"),
            (TRANSFER_ENCODING, "gzip, chunked", "Transfer-Encoding"),
        ] {
            let problem = AcceptedBody::JSON
                .check(&headers(&[json.clone(), (name, encoding)]))
                .unwrap_err();
            assert_eq!(problem.code, Code::UnsupportedContentEncoding, "{named}");
            assert!(problem.detail.contains(named), "{}", problem.detail);
        }
    }

    #[test]
    fn merge_patch_type_is_for_patches_only() {
        let patch = headers(&[(CONTENT_TYPE, "Application/Merge-Patch+JSON; charset=utf-8")]);
        assert!(AcceptedBody::MERGE_PATCH.check(&patch).is_ok());
        assert!(
            AcceptedBody::MERGE_PATCH
                .check(&headers(&[(CONTENT_TYPE, "application/json")]))
                .is_ok()
        );
        assert!(AcceptedBody::JSON.check(&patch).is_err());
        let problem = AcceptedBody::MERGE_PATCH
            .check(&HeaderMap::new())
            .unwrap_err();
        assert_eq!(problem.code, Code::UnsupportedMediaType);
        let accepted = "application/merge-patch+json, application/json";
        assert_eq!(problem.headers, [("accept-patch", accepted.to_owned())]);
    }
}
