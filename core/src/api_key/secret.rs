//! Secrets: a prefix of 4 characters, 30 characters of base62, and a checksum of 6 characters.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::clock::random_text;

/// Length of the prefix of each kind of key.
const PREFIX_LENGTH: usize = 4;
const RANDOM_LENGTH: usize = 30;
const CHECKSUM_LENGTH: usize = 6;
const KEY_LENGTH: usize = PREFIX_LENGTH + RANDOM_LENGTH + CHECKSUM_LENGTH;
/// Length of the beginning of a key that may be shown, for people to recognise the key.
const SHOWN_LENGTH: usize = PREFIX_LENGTH + 4;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Declares the secret text of a kind of key.
macro_rules! secret_key {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        ///
        /// `Debug` shows only the beginning that may be shown.
        #[derive(Clone, PartialEq, Eq)]
        pub struct $name(String);

        impl $name {
            /// Beginning of every key of this kind. Secret scanners search for it, so it must never change.
            pub const PREFIX: &'static str = $prefix;

            /// Generates a key with about 178 random bits.
            pub fn generate() -> Self {
                Self(generate(Self::PREFIX))
            }

            /// Parses a key. Returns `None` if the format or the checksum is wrong.
            pub fn parse(text: &str) -> Option<Self> {
                is_key(text, Self::PREFIX).then(|| Self(text.to_owned()))
            }

            /// Returns the SHA-256 hash, which is stored in place of the key.
            pub fn sha256(&self) -> [u8; 32] {
                Sha256::digest(&self.0).into()
            }

            /// Returns the beginning that may be shown, to recognise the key by.
            pub fn shown_prefix(&self) -> &str {
                &self.0[..SHOWN_LENGTH]
            }

            /// Returns the secret text. Call `reveal` only to hand out a new key.
            pub fn reveal(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({}…)"), self.shown_prefix())
            }
        }
    };
}

secret_key!(
    /// The secret text of an API key, which acts for an account.
    ApiKey, "llk_");
secret_key!(
    /// The secret text of an admin key, which acts for an operator.
    AdminKey, "lla_");

fn generate(prefix: &str) -> String {
    let body = format!("{prefix}{}", random_text(BASE62, RANDOM_LENGTH));
    let checksum = checksum(&body);
    body + &checksum
}

fn is_key(text: &str, prefix: &str) -> bool {
    if text.len() != KEY_LENGTH || !text.is_ascii() {
        return false;
    }
    let (body, given_checksum) = text.split_at(KEY_LENGTH - CHECKSUM_LENGTH);
    let is_base62 = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    body.strip_prefix(prefix).is_some_and(is_base62) && checksum(body) == given_checksum
}

/// Returns the CRC32 of `body` in base62, most significant digit first.
fn checksum(body: &str) -> String {
    let mut rest = usize::try_from(crc32fast::hash(body.as_bytes())).expect("32 bits fit");
    let mut digits = [b'0'; CHECKSUM_LENGTH];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[rest % BASE62.len()];
        rest /= BASE62.len();
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_key_is_well_formed_and_unique() {
        let key = ApiKey::generate();
        assert_eq!(ApiKey::parse(key.reveal()), Some(key.clone()));
        assert_ne!(ApiKey::generate(), key);
        let key = AdminKey::generate();
        assert_eq!(AdminKey::parse(key.reveal()), Some(key));
    }

    #[test]
    fn key_of_one_kind_is_none_of_the_other() {
        assert_eq!(ApiKey::parse(AdminKey::generate().reveal()), None);
        assert_eq!(AdminKey::parse(ApiKey::generate().reveal()), None);
    }

    #[test]
    fn checksum_equals_its_stored_value() {
        // CRC32 of the body is 0x537ae574.
        let body = "llk_000000000000000000000000000000";
        assert_eq!(checksum(body), "1WmcQm");
    }

    #[test]
    fn checksum_detects_any_wrong_character() {
        let key = ApiKey::generate().reveal().to_owned();
        for index in 0..key.len() {
            let mut bytes = key.clone().into_bytes();
            bytes[index] = if bytes[index] == b'x' { b'y' } else { b'x' };
            assert_eq!(
                ApiKey::parse(&String::from_utf8(bytes).unwrap()),
                None,
                "{index}"
            );
        }
        for other in [
            "",
            "llk_",
            &key[1..],
            &format!("{key}0"),
            &key.to_lowercase(),
        ] {
            assert_eq!(ApiKey::parse(other), None, "{other}");
        }
        assert_eq!(ApiKey::parse(&format!("llk_\u{e9}{}", &key[6..])), None);
    }

    #[test]
    fn debug_output_hides_the_key() {
        let key = ApiKey::generate();
        assert_eq!(
            format!("{key:?}"),
            format!("ApiKey({}…)", &key.reveal()[..8])
        );
    }
}
