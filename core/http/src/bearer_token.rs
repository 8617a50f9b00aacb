//! The bearer token of a request (RFC 6750): an API key on the public listener, an admin key on the admin listener.

use axum::http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

use crate::problem::Problem;

/// Returns the token of `Authorization: Bearer …` without surrounding white space. A token that is not text is empty.
/// A key anywhere else, such as in the query, is ignored.
///
/// The scheme is case-insensitive, and any number of spaces and tabs may surround the token. Characters
/// that are not allowed in a token68 (RFC 9110, 11.2) are left for the parser of the token, which refuses
/// them.
///
/// # Errors
/// Returns `authentication_required` without the header, or with another scheme than Bearer.
pub(super) fn bearer_token(headers: &HeaderMap) -> Result<&str, Problem> {
    let value = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let value = value.unwrap_or_default();
    let scheme_ends = value.iter().position(|byte| is_blank(*byte));
    let (scheme, rest) = value.split_at(scheme_ends.unwrap_or(value.len()));
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Err(Problem::authentication_required());
    }
    let token = std::str::from_utf8(rest).unwrap_or_default();
    Ok(token.trim_matches([' ', '\t']))
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
        bearer_token(&headers).ok().map(str::to_owned)
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
        let missing = Err(Problem::authentication_required());
        assert_eq!(bearer_token(&HeaderMap::new()), missing);
        for value in ["", "Basic eDp5", "Bearerx", "Bearer,x", "x Bearer"] {
            assert_eq!(read(value.as_bytes()), None, "{value:?}");
        }
        assert_eq!(read(b"Bearer").as_deref(), Some(""));
        assert_eq!(read(b"Bearer x, Bearer y").as_deref(), Some("x, Bearer y"));
        assert_eq!(read(b"Bearer \xff").as_deref(), Some(""));
    }
}
