//! Entities of HTML, in which YOURLS keeps titles and some addresses.

use std::borrow::Cow;

/// Longest entity that is looked for, without `&` and `;`, in bytes.
const ENTITY_LENGTH_MAX: usize = 8;
const NAMED: [(&str, char); 11] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", '\u{a0}'),
    ("hellip", '\u{2026}'),
    ("ndash", '\u{2013}'),
    ("mdash", '\u{2014}'),
    ("laquo", '\u{ab}'),
    ("raquo", '\u{bb}'),
];

/// Returns the text with the character of each entity that ends with `;`, once; other texts stay.
pub(super) fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let entity = after
            .bytes()
            .take(ENTITY_LENGTH_MAX + 1)
            .position(|byte| byte == b';');
        let character = entity.and_then(|end| character(&after[..end]));
        if let (Some(end), Some(character)) = (entity, character) {
            out.push(character);
            rest = &after[end + 1..];
        } else {
            out.push('&');
            rest = after;
        }
    }
    Cow::Owned(out + rest)
}

fn character(entity: &str) -> Option<char> {
    let Some(number) = entity.strip_prefix('#') else {
        let named = NAMED.iter().find(|(name, _)| *name == entity);
        return named.map(|(_, character)| *character);
    };
    let number = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    char::from_u32(number.ok()?).filter(|character| !character.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_decoded_once() {
        for (given, expected) in [
            ("Ozh &amp; friends &#039;x&#039;", "Ozh & friends 'x'"),
            ("&lt;b&gt; &quot;&#x1F34A;&quot;", "<b> \"\u{1f34a}\""),
            ("&amp;amp;", "&amp;"),
            (
                "a & b; &; &unknown; &copy=1 &#0; &#xD800; &",
                "a & b; &; &unknown; &copy=1 &#0; &#xD800; &",
            ),
            ("no entity", "no entity"),
        ] {
            assert_eq!(decoded(given), expected);
        }
    }
}
