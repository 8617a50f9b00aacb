//! Characters that nobody sees at the ends of a line or a cell: the set of `url_space_at_end`.

pub(super) use linkledger_core::link::destination::is_space_at_end as is_blank;

/// Returns true for the blank characters that people do not see: all but space, tab and line break.
fn is_invisible(character: char) -> bool {
    is_blank(character) && !matches!(character, ' ' | '\t'..='\r')
}

/// Returns the text without blank characters at its ends.
pub(super) fn trimmed(text: &str) -> &str {
    text.trim_matches(is_blank)
}

/// Returns true if trimming takes an invisible character away, which the report then names.
pub(super) fn loses_invisible(text: &str) -> bool {
    let kept = trimmed(text);
    let invisible = |text: &str| text.chars().filter(|c| is_invisible(*c)).count();
    invisible(text) > invisible(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_lose_spaces_and_invisible_characters() {
        for (text, is_reported) in [
            (" a b\t", false),
            ("a b", false),
            ("a b\u{200b}", true),
            ("\u{feff}a b", true),
            ("a b\u{a0}", true),
            ("\u{3000} a b \u{2028}\u{200e}\u{ad}\u{2060}", true),
        ] {
            assert_eq!(trimmed(text), "a b", "{text:?}");
            assert_eq!(loses_invisible(text), is_reported, "{text:?}");
        }
        assert_eq!(
            trimmed("\u{645}\u{6cc}\u{200c}x"),
            "\u{645}\u{6cc}\u{200c}x"
        );
    }
}
