//! Reads the token of `Authorization: Bearer …`. A key anywhere else, such as in the query, is
//! ignored.

use axum::http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

/// Content of the header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credentials<'a> {
    /// No header, or another scheme than Bearer.
    None,
    /// Token, without surrounding white space.
    Token(&'a str),
    /// The header is not text.
    Malformed,
}

/// Reads the header. The scheme is case-insensitive, and any number of spaces and tabs may surround
/// the token. Characters that are not allowed in a token68 (RFC 9110, 11.2) are left for the parser
/// of the token, which refuses them.
pub(super) fn credentials(headers: &HeaderMap) -> Credentials<'_> {
    let value = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let value = value.unwrap_or_default();
    let scheme_ends = value.iter().position(|byte| is_blank(*byte));
    let (scheme, rest) = value.split_at(scheme_ends.unwrap_or(value.len()));
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Credentials::None;
    }
    match std::str::from_utf8(rest) {
        Ok(rest) => Credentials::Token(rest.trim_matches([' ', '\t'])),
        Err(_) => Credentials::Malformed,
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &[u8]) -> String {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_bytes(value).unwrap();
        headers.insert(AUTHORIZATION, value);
        format!("{:?}", credentials(&headers))
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
            assert_eq!(read(value.as_bytes()), "Token(\"x\")", "{value:?}");
        }
    }

    #[test]
    fn missing_token_differs_from_malformed_token() {
        assert_eq!(credentials(&HeaderMap::new()), Credentials::None);
        for value in ["", "Basic eDp5", "Bearerx", "Bearer,x", "x Bearer"] {
            assert_eq!(read(value.as_bytes()), "None", "{value:?}");
        }
        assert_eq!(read(b"Bearer"), "Token(\"\")");
        assert_eq!(read(b"Bearer x, Bearer y"), "Token(\"x, Bearer y\")");
        assert_eq!(read(b"Bearer \xff"), "Malformed");
    }
}
