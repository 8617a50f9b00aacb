//! Slugs: the last part of a short address (`docs/api.md#slugs`).

use std::fmt;

use crate::{clock::random_text, field::FieldCode};

/// Minimal length of a chosen slug, in characters.
pub const LENGTH_MIN: usize = 1;
/// Maximal length of a chosen slug, in characters.
pub const LENGTH_MAX: usize = 64;
/// Regular expression of slugs.
pub const PATTERN: &str = "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$";
/// Length of a generated slug; there are 31^8, about 8.5e11.
const GENERATED_LENGTH: usize = 8;
/// Alphabet without `0`, `1`, `i`, `l`, `o`, which people confuse.
const GENERATED_ALPHABET: &[u8; 31] = b"23456789abcdefghjkmnpqrstuvwxyz";

/// Lower-cased names that are reserved for services on the same host, now or later. A link that already
/// has a newly reserved name keeps the name.
const RESERVED: &[&str] = &[
    ".well-known",
    "admin",
    "api",
    "docs",
    "favicon.ico",
    "health",
    "livez",
    "metrics",
    "openapi",
    "openapi.json",
    "readyz",
    "robots.txt",
    "sitemap.xml",
    "v1",
];

/// Characters inside of slugs that no slug begins or ends with.
const SIGNS: [char; 3] = ['.', '_', '-'];

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || SIGNS.contains(&character)
}

/// A valid slug: shown as given, unique by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slug(String);

impl Slug {
    /// Parses a slug that a client requests.
    ///
    /// # Errors
    /// Returns the first violated rule. Does not check if the slug is free.
    pub fn parse(text: &str) -> Result<Self, FieldCode> {
        if text.contains('\0') {
            return Err(FieldCode::ContainsNul);
        }
        if RESERVED.contains(&text.to_ascii_lowercase().as_str()) {
            return Err(FieldCode::SlugReserved);
        }
        Self::parse_stored(text)
    }

    /// Parses a slug for a look-up. Accepts reserved names, which a link may have received before
    /// the reservation.
    ///
    /// # Errors
    /// Returns the first violated rule; no link has an invalid slug.
    pub fn parse_stored(text: &str) -> Result<Self, FieldCode> {
        if !text.chars().all(is_allowed) || text.starts_with(SIGNS) || text.ends_with(SIGNS) {
            return Err(FieldCode::SlugInvalidCharacter);
        }
        match text.len() {
            ..LENGTH_MIN => Err(FieldCode::SlugTooShort),
            LENGTH_MIN..=LENGTH_MAX => Ok(Self(text.to_owned())),
            _ => Err(FieldCode::SlugTooLong),
        }
    }

    /// Generates a slug for a client that chose none.
    pub fn generate() -> Self {
        Self(random_text(GENERATED_ALPHABET, GENERATED_LENGTH))
    }

    /// Returns the slug of examples.
    pub fn example() -> Self {
        Self("Spring-26".to_owned())
    }

    /// Returns the key, by which slugs are compared and looked up.
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// Returns the slug as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Beginning of slugs, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlugPrefix(String);

impl SlugPrefix {
    /// Parses the beginning of a slug, of at least one character, in any letter case.
    ///
    /// # Errors
    /// Returns the first violated rule; no slug begins with an invalid prefix.
    pub fn parse(text: &str) -> Result<Self, FieldCode> {
        if !text.chars().all(is_allowed) || text.starts_with(SIGNS) {
            return Err(FieldCode::SlugInvalidCharacter);
        }
        match text.len() {
            0 => Err(FieldCode::SlugTooShort),
            1..=LENGTH_MAX => Ok(Self(text.to_ascii_lowercase())),
            _ => Err(FieldCode::SlugTooLong),
        }
    }

    /// Returns the prefix in lower case: the first text, in the order of bytes, that begins with the prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first text after all texts that begin with the prefix, in the order of bytes.
    pub fn end(&self) -> String {
        let mut end = self.0.clone();
        let last = end.pop().expect("a prefix has a character");
        // The last of the allowed characters is `z`.
        end.push(char::from_u32(u32::from(last) + 1).expect("the next ASCII character"));
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slug_keeps_case_and_compares_in_lower_case() {
        let slug = Slug::parse("Sommer-Fest_26").unwrap();
        assert_eq!(slug.as_str(), "Sommer-Fest_26");
        assert_eq!(slug.key(), "sommer-fest_26");
    }

    #[test]
    fn each_slug_rule_has_its_code() {
        use FieldCode::{
            ContainsNul, SlugInvalidCharacter, SlugReserved, SlugTooLong, SlugTooShort,
        };
        for (text, code) in [
            ("a\0b", ContainsNul),
            ("API", SlugReserved),
            ("v1", SlugReserved),
            (".well-known", SlugReserved),
            ("Robots.txt", SlugReserved),
            ("", SlugTooShort),
            (&"a".repeat(65), SlugTooLong),
            ("a/b", SlugInvalidCharacter),
            (".", SlugInvalidCharacter),
            ("..", SlugInvalidCharacter),
            ("v2.", SlugInvalidCharacter),
            (".v2", SlugInvalidCharacter),
            ("a b", SlugInvalidCharacter),
            ("a+b", SlugInvalidCharacter),
            ("caf\u{e9}", SlugInvalidCharacter),
            ("\u{ff41}bc", SlugInvalidCharacter),
            ("-abc", SlugInvalidCharacter),
            ("abc_", SlugInvalidCharacter),
        ] {
            assert_eq!(Slug::parse(text), Err(code), "{text:?}");
        }
        for text in ["7", "en", "v2.1", "a..b", "1.0_rc-3", &"a".repeat(64)] {
            assert_eq!(Slug::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn prefix_is_lower_cased_and_checked() {
        use FieldCode::{SlugInvalidCharacter, SlugTooLong, SlugTooShort};
        for (text, start, end) in [
            ("a", "a", "b"),
            ("Sommer-", "sommer-", "sommer."),
            ("V2.", "v2.", "v2/"),
            ("z9", "z9", "z:"),
            ("Z", "z", "{"),
            ("a_", "a_", "a`"),
        ] {
            let prefix = SlugPrefix::parse(text).unwrap();
            assert_eq!((prefix.as_str(), prefix.end().as_str()), (start, end));
        }
        assert!(SlugPrefix::parse(&"a".repeat(64)).is_ok());
        for (text, code) in [
            ("", SlugTooShort),
            (&"a".repeat(65), SlugTooLong),
            ("-a", SlugInvalidCharacter),
            ("_", SlugInvalidCharacter),
            (".", SlugInvalidCharacter),
            ("a%", SlugInvalidCharacter),
            ("a\0", SlugInvalidCharacter),
            ("a b", SlugInvalidCharacter),
            ("\u{ff41}", SlugInvalidCharacter),
        ] {
            assert_eq!(SlugPrefix::parse(text), Err(code), "{text:?}");
        }
    }

    #[test]
    fn reserved_slug_is_refused_but_found() {
        for text in ["admin", "API", "v1", "Robots.txt"] {
            assert_eq!(Slug::parse(text), Err(FieldCode::SlugReserved), "{text}");
            assert_eq!(Slug::parse_stored(text).unwrap().as_str(), text);
        }
        for (text, code) in [
            ("", FieldCode::SlugTooShort),
            (".well-known", FieldCode::SlugInvalidCharacter),
            ("a\0b", FieldCode::SlugInvalidCharacter),
        ] {
            assert_eq!(Slug::parse_stored(text), Err(code), "{text:?}");
        }
    }

    #[test]
    fn a_generated_slug_keeps_the_rules() {
        for _ in 0..100 {
            let slug = Slug::generate();
            assert_eq!(Slug::parse(slug.as_str()), Ok(slug.clone()));
            assert_eq!(slug.as_str(), slug.key());
        }
    }
}
