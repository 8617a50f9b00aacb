//! Codes that open the console of an account's owner once (`docs/admin-api.md#console-sessions`).

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use time::Duration;

use crate::clock::random_bytes;

/// Time within which a code must be exchanged, by the clock of the database.
pub const LIFETIME: Duration = Duration::seconds(60);
/// Length of a code, in bytes.
const LENGTH: usize = 32;

/// Secret of a console session: 256 random bits, written as 43 characters of base64url.
///
/// `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct ConsoleCode([u8; LENGTH]);

impl ConsoleCode {
    /// Generates a code.
    pub fn generate() -> Self {
        Self(random_bytes())
    }

    /// Parses a code, of which there is one spelling. Returns `None` for another text.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// Returns the SHA-256 hash, which is stored in place of the code.
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }

    /// Returns the secret text. Call `reveal` only to hand out a new code.
    pub fn reveal(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }
}

impl fmt::Debug for ConsoleCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConsoleCode(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_code_is_well_formed_and_unique() {
        let code = ConsoleCode::generate();
        let text = code.reveal();
        assert_eq!(text.len(), 43);
        assert_eq!(ConsoleCode::parse(&text), Some(code.clone()));
        assert_ne!(ConsoleCode::generate(), code);
        assert_eq!(format!("{code:?}"), "ConsoleCode(…)");
    }

    #[test]
    fn text_of_another_shape_is_no_code() {
        let text = ConsoleCode([0; LENGTH]).reveal();
        assert_eq!(text, "A".repeat(43));
        for other in [
            "",
            &text[1..],
            &format!("{text}A"),
            &format!("{text}="),
            // The last character has two bits that belong to no byte.
            &format!("{}B", &text[1..]),
            &format!("{}+", &text[1..]),
            &"\u{e9}".repeat(43),
        ] {
            assert_eq!(ConsoleCode::parse(other), None, "{other}");
        }
    }
}
