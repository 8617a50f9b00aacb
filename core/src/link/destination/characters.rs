//! Characters that nobody sees: copied along with an address, they make it lead elsewhere.

/// Returns true for white space, and for invisible characters that have no meaning at the end of an address. Variation
/// selectors are none of them: they belong to the symbol before them.
pub fn is_space_at_end(character: char) -> bool {
    character.is_whitespace()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
        )
}

/// Returns true for characters that name resolution drops or never has. The joiners of some scripts stay allowed.
pub(super) fn is_invisible_in_host(character: char) -> bool {
    let is_joiner = matches!(character, '\u{200c}' | '\u{200d}');
    let is_variation = matches!(
        character,
        '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    );
    is_variation || (is_space_at_end(character) && !is_joiner)
}
