//! Text as a cell of CSV that no spreadsheet takes for a formula.

use std::borrow::Cow;

/// Characters that begin a formula, or that a reader may skip before one. `'` is among them so that the guard can
/// be taken away again without doubt.
const GUARDED: [char; 7] = ['=', '+', '-', '@', '\'', '\t', '\r'];

/// Returns the text with `'` before it if a spreadsheet could read a formula.
pub fn guarded(text: &str) -> Cow<'_, str> {
    if text.starts_with(GUARDED) {
        Cow::Owned(format!("'{text}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns the cell, in quotes if a reader with comma or semicolon as separator could take it for several.
pub fn quoted(cell: &str) -> Cow<'_, str> {
    if cell.contains([',', ';', '"', '\r', '\n']) {
        Cow::Owned(format!("\"{}\"", cell.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(cell)
    }
}

/// Returns the text of a cell without the `'` that [`guarded`] put before it.
pub fn unguarded(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if text.starts_with(GUARDED) => text,
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_get_an_apostrophe() {
        for text in ["=1+1", "+1", "-1", "@SUM(A1)", "'=1", "\t=1", "\r=1"] {
            assert_eq!(guarded(text), format!("'{text}"));
            assert_eq!(unguarded(&guarded(text)), text);
        }
        for text in ["", "DE", "a=b", " =1", "\n=1", "news.example"] {
            assert_eq!(guarded(text), text);
            assert_eq!(unguarded(text), text);
        }
    }

    /// A column of addresses is therefore a file that `linkledger import` reads unchanged.
    #[test]
    fn addresses_of_links_are_never_changed() {
        for text in ["https://example.com/?a='=1", "http://sho.rt/Spring"] {
            assert!(matches!(guarded(text), Cow::Borrowed(same) if same == text));
        }
    }
}
