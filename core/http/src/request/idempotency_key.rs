//! The header `Idempotency-Key` of the admin API: any short text, such as the number of an invoice.

use axum::http::{HeaderMap, HeaderName};

use super::single;
use crate::problem::Problem;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Maximal length of a key, in characters.
pub const ADMIN_KEY_LENGTH_MAX: usize = 128;

/// Returns the idempotency key of a request to the admin API, which must be sent exactly once. The key is compared as
/// it is, quotes and letter case included.
///
/// # Errors
/// Returns `idempotency_key_missing` or `idempotency_key_invalid`.
pub fn admin_idempotency_key(headers: &HeaderMap) -> Result<String, Problem> {
    if !headers.contains_key(IDEMPOTENCY_KEY) {
        return Err(Problem::idempotency_key_missing());
    }
    let is_printable = |byte: u8| matches!(byte, b' '..=b'~');
    single(headers, &IDEMPOTENCY_KEY)
        .map(unquoted)
        .filter(|key| (1..=ADMIN_KEY_LENGTH_MAX).contains(&key.len()))
        .filter(|key| key.bytes().all(is_printable))
        .map(str::to_owned)
        .ok_or_else(Problem::admin_idempotency_key_invalid)
}

/// Takes the quotes of RFC 9651 away: with and without them it is the same key.
fn unquoted(key: &str) -> &str {
    let inner = key.strip_prefix('"').and_then(|key| key.strip_suffix('"'));
    inner.unwrap_or(key)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use crate::problem::Code;

    fn code(values: &[&[u8]]) -> Result<String, Code> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value).unwrap());
        }
        admin_idempotency_key(&headers).map_err(|problem| problem.code)
    }

    #[test]
    fn key_is_taken_as_it_is() {
        let longest = "k".repeat(ADMIN_KEY_LENGTH_MAX);
        for key in ["1", "invoice-2026-11-4711", "Order 7 (A/B) ~", &longest] {
            assert_eq!(code(&[key.as_bytes()]).as_deref(), Ok(key));
        }
    }

    #[test]
    fn quotes_around_a_key_are_no_part_of_it() {
        assert_eq!(code(&[b"\"invoice 7\""]).as_deref(), Ok("invoice 7"));
        assert_eq!(code(&[b"say \"7\""]).as_deref(), Ok("say \"7\""));
        assert_eq!(code(&[b"\"\""]), Err(Code::IdempotencyKeyInvalid));
    }

    #[test]
    fn missing_repeated_and_malformed_keys_are_rejected() {
        assert_eq!(code(&[]), Err(Code::IdempotencyKeyMissing));
        let too_long = "k".repeat(ADMIN_KEY_LENGTH_MAX + 1);
        for values in [
            &[b"".as_slice()] as &[&[u8]],
            &[b"a\tb"],
            &[b"caf\xc3\xa9"],
            &[b"\xff"],
            &[too_long.as_bytes()],
            &[b"one", b"one"],
        ] {
            assert_eq!(code(values), Err(Code::IdempotencyKeyInvalid), "{values:?}");
        }
    }
}
