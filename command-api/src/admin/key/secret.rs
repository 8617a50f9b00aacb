//! Secrets of keys: made by the service, or by the caller.

use linkledger_core::api_key::ApiKey;
use linkledger_event_store::api_keys::{KeyHash, KeySecret};
use serde_json::{Value, json};

use crate::admin::author::parse_ascii;

/// Maximal length of the beginning of a secret that the caller has made, in characters.
pub const PREFIX_LENGTH_MAX: usize = 16;

/// Secret of a key to issue.
#[derive(Debug, Clone)]
pub enum NewSecret {
    /// Secret that the service has made. The first answer shows it, and no other.
    Generated(ApiKey),
    /// Secret that the caller has made: only its hash is known.
    Given(KeySecret),
}

impl NewSecret {
    /// Returns what is stored of the secret.
    pub(super) fn stored(&self) -> KeySecret {
        match self {
            Self::Generated(secret) => KeySecret::of(secret),
            Self::Given(stored) => stored.clone(),
        }
    }

    /// Returns the hash that the caller has sent: part of the request, unlike a secret that the service makes anew
    /// for each retry.
    pub(super) fn given_sha256(&self) -> Value {
        match self {
            Self::Generated(_) => Value::Null,
            Self::Given(stored) => json!(stored.sha256),
        }
    }
}

/// Parses the SHA-256 of a secret: 64 hexadecimal digits.
///
/// # Errors
/// Returns a description of valid hashes.
pub fn parse_sha256(text: &str) -> Result<KeyHash, String> {
    let invalid = "give the SHA-256 of a secret: 64 hexadecimal digits";
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16)?).ok())
        .collect();
    let bytes: Vec<u8> = digits
        .ok_or(invalid)?
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| (byte << 4) | *digit))
        .collect();
    if text.len() != 64 {
        return Err(invalid.to_owned());
    }
    KeyHash::try_from(bytes).map_err(|_| invalid.to_owned())
}

/// Parses the first characters of a secret: 1 to 16 printable ASCII characters.
///
/// # Errors
/// Returns a description of valid prefixes.
pub fn parse_prefix(text: &str) -> Result<String, String> {
    parse_ascii(text, PREFIX_LENGTH_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_has_64_hexadecimal_digits() {
        let text = format!("00fF{}a9", "1".repeat(58));
        let hash = parse_sha256(&text).unwrap();
        assert_eq!((hash[0], hash[1], hash[2], hash[31]), (0, 0xff, 0x11, 0xa9));
        for text in [
            "",
            &text[1..],
            &format!("{text}0"),
            &text.replace('9', "g"),
            &"\u{e9}".repeat(32),
        ] {
            assert!(parse_sha256(text).is_err(), "{text}");
        }
    }
}
