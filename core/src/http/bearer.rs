//! Reads the token of `Authorization: Bearer …`. A key anywhere else, such as in the query, is
//! ignored.

use axum::http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

/// Returns the token without surrounding white space; `None` without the header, or with another scheme
/// than Bearer. A token that is not text is empty.
///
/// The scheme is case-insensitive, and any number of spaces and tabs may surround the token. Characters
/// that are not allowed in a token68 (RFC 9110, 11.2) are left for the parser of the token, which refuses
/// them.
pub(super) fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let value = value.unwrap_or_default();
    let scheme_ends = value.iter().position(|byte| is_blank(*byte));
    let (scheme, rest) = value.split_at(scheme_ends.unwrap_or(value.len()));
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return None;
    }
    let token = std::str::from_utf8(rest).unwrap_or_default();
    Some(token.trim_matches([' ', '\t']))
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &[u8]) -> Option<String> {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_bytes(value).unwrap();
        headers.insert(AUTHORIZATION, value);
        token(&headers).map(str::to_owned)
    }

    #[test]
    fn bearer_scheme_ignores_case_and_spaces() {
        for value in [
            "Bearer x",
            "bearer x",
            "BEARER   x",
            "bEaReR\tx",
            "Bearer \t x \t",
        ] {
            assert_eq!(read(value.as_bytes()).as_deref(), Some("x"), "{value:?}");
        }
    }

    #[test]
    fn missing_token_differs_from_malformed_token() {
        assert_eq!(token(&HeaderMap::new()), None);
        for value in ["", "Basic eDp5", "Bearerx", "Bearer,x", "x Bearer"] {
            assert_eq!(read(value.as_bytes()), None, "{value:?}");
        }
        assert_eq!(read(b"Bearer").as_deref(), Some(""));
        assert_eq!(read(b"Bearer x, Bearer y").as_deref(), Some("x, Bearer y"));
        assert_eq!(read(b"Bearer \xff").as_deref(), Some(""));
    }
}
