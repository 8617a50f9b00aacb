//! The token of `Authorization: Bearer …`. A key anywhere else, in the query for instance, is not read.

use axum::http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

/// What the header carries.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credentials<'a> {
    /// Nothing, or another scheme than Bearer.
    None,
    /// Some token, without the white space around it.
    Token(&'a str),
    /// Not text.
    Malformed,
}

/// Reads the header. The scheme's case does not matter; spaces and tabs may stand before and after
/// the token, as many as there are. Inside of it they make it malformed, like all else that no
/// token68 (RFC 9110, 11.2) has: whoever parses the token refuses that.
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
    fn the_scheme_is_read_in_any_case_and_white_space_does_not_matter() {
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
    fn what_is_no_bearer_token_is_told_apart_from_a_bad_one() {
        assert_eq!(credentials(&HeaderMap::new()), Credentials::None);
        for value in ["", "Basic eDp5", "Bearerx", "Bearer,x", "x Bearer"] {
            assert_eq!(read(value.as_bytes()), "None", "{value:?}");
        }
        assert_eq!(read(b"Bearer"), "Token(\"\")");
        assert_eq!(read(b"Bearer x, Bearer y"), "Token(\"x, Bearer y\")");
        assert_eq!(read(b"Bearer \xff"), "Malformed");
    }
}
