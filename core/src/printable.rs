//! Text of others, shown on terminals and pages.

use std::{borrow::Cow, fmt::Write as _};

/// Returns true if the character shows itself and nothing else: no control character (C0, C1), and
/// none that reorders or hides the text around it (Unicode Standard Annex 9; U+200B, U+2028, U+2029,
/// U+FEFF).
pub fn is_printable(character: char) -> bool {
    let reorders_or_hides = matches!(
        character,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}'
    );
    !character.is_control() && !reorders_or_hides
}

/// Escapes each character that is not printable, as `\u{202e}`: text of others must not control a
/// terminal, nor look like other text.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_printable(character) {
            escaped.push(character);
        } else {
            write!(escaped, "{}", character.escape_default()).expect("writing to a string");
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_all_scripts_stays() {
        for text in [
            "",
            "spring \u{e4}\u{4e2d}\u{5e9}",
            "\u{1f468}\u{200d}\u{1f469}",
        ] {
            assert_eq!(printable(text), text);
        }
    }

    #[test]
    fn controls_and_reordering_are_escaped() {
        for (text, shown) in [
            ("a\u{202e}b", "a\\u{202e}b"),
            ("\u{1b}[2J\u{9b}2J", "\\u{1b}[2J\\u{9b}2J"),
            ("two\nlines\t", "two\\nlines\\t"),
            ("\u{2067}x\u{feff}", "\\u{2067}x\\u{feff}"),
        ] {
            assert_eq!(printable(text), shown, "{text:?}");
        }
    }
}
