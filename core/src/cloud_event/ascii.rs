//! JSON without characters beyond ASCII, for the value of a header.

use std::fmt::Write as _;

use serde::Serialize;

/// Returns the value as JSON in which each character beyond ASCII is escaped.
///
/// # Panics
/// Panics if the value is no JSON.
pub(super) fn json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("plain members");
    if json.is_ascii() {
        return json;
    }
    let mut ascii = String::with_capacity(2 * json.len());
    for character in json.chars() {
        if character.is_ascii() {
            ascii.push(character);
            continue;
        }
        // JSON has such characters in strings only, where any may be escaped.
        for unit in character.encode_utf16(&mut [0; 2]) {
            write!(ascii, "\\u{unit:04x}").expect("a string takes all");
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    #[test]
    fn characters_beyond_ascii_are_escaped() {
        let text = "a\"\u{fc}\u{1f517}";
        let json = super::json(&text);
        assert_eq!(json, r#""a\"\u00fc\ud83d\udd17""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
