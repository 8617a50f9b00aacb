//! The `Idempotency-Key` header. `docs/api.md#idempotency` describes its effect.

use axum::http::{HeaderMap, HeaderName};
use linkledger_core::{batch::IdempotencyKey, problem::Problem};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};

pub(in crate::routes) const IDEMPOTENCY_KEY: HeaderName =
    HeaderName::from_static("idempotency-key");

/// The header in the OpenAPI document.
///
/// A pattern, and not the format `uuid`, for which generators of clients make a type that is no header.
pub(super) struct KeyHeader;

/// Regular expression of the header; the quoted form of RFC 9651 is accepted too.
const PATTERN: &str = "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$";
const EXAMPLE: &str = "0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0";

impl PartialSchema for KeyHeader {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(PATTERN))
            .examples([EXAMPLE])
            .build()
            .into()
    }
}

impl ToSchema for KeyHeader {}

/// Parses the header, which must be sent exactly once.
///
/// # Errors
/// Returns `idempotency_key_missing` or `idempotency_key_invalid`.
pub(super) fn parse(headers: &HeaderMap) -> Result<IdempotencyKey, Problem> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else {
        return Err(Problem::idempotency_key_missing());
    };
    let key = value
        .to_str()
        .ok()
        .filter(|_| values.next().is_none())
        .and_then(IdempotencyKey::parse);
    key.ok_or_else(Problem::idempotency_key_invalid)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use linkledger_core::problem::Code;

    fn code(values: &[&[u8]]) -> Result<IdempotencyKey, Code> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(value).unwrap());
        }
        parse(&headers).map_err(|problem| problem.code)
    }

    #[test]
    fn quotes_and_case_of_key_are_ignored() {
        let key = code(&[b"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0"]).unwrap();
        assert_eq!(code(&[b"0B1C2D3E-4F50-4172-8394-A5B6C7D8E9F0"]), Ok(key));
        assert_eq!(
            code(&[b"\"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0\""]),
            Ok(key)
        );
        assert_eq!(key.stored(), "create:0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0");
    }

    #[test]
    fn missing_repeated_and_malformed_keys_are_rejected() {
        assert_eq!(code(&[]), Err(Code::IdempotencyKeyMissing));
        let one: &[u8] = b"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0";
        for values in [
            &[b"".as_slice()] as &[&[u8]],
            &[b"\"\""],
            &[b"k1"],
            &[b"0b1c2d3e4f5041728394a5b6c7d8e9f0"],
            &[b"{0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0}"],
            &[b"urn:uuid:0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0"],
            &[b"\"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0\";p=1"],
            &[b"\"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9f0"],
            &[b"0b1c2d3e-4f50-4172-8394-a5b6c7d8e9\xe9"],
            &[one, one],
        ] {
            assert_eq!(code(values), Err(Code::IdempotencyKeyInvalid), "{values:?}");
        }
    }
}
