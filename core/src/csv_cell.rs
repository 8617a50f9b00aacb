//! Text as a cell of CSV that common spreadsheets do not take for a formula.
//!
//! Where numbers have a comma, spreadsheets split our lines at `;` instead, also within quotes: these count only at the
//! begin of what such a spreadsheet takes for a cell. So each part of a text that could become a cell has its guard.

use std::borrow::Cow;

/// Characters that begin a formula, or that a reader may skip before one. `'` is among them so that the guard can
/// be taken away again without doubt.
const GUARDED: [char; 11] = ['=', '+', '-', '@', '＝', '＋', '－', '＠', '\'', '\t', '\r'];
/// Characters after which a spreadsheet may begin a cell, or a row.
const SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];
/// Guard, after which a spreadsheet reads text.
const GUARD: char = '\'';

/// Returns the text with `'` wherever a spreadsheet could read a formula: at the begin, and after each `;`, tab and line
/// break.
pub fn guarded(text: &str) -> Cow<'_, str> {
    let places = parts(text).filter(|at| is_guarded(&text[*at..]));
    let mut guarded = String::new();
    let mut copied = 0;
    for at in places {
        guarded.push_str(&text[copied..at]);
        guarded.push(GUARD);
        copied = at;
    }
    if guarded.is_empty() {
        return Cow::Borrowed(text);
    }
    guarded.push_str(&text[copied..]);
    Cow::Owned(guarded)
}

/// Returns the text of a cell without each `'` that [`guarded`] put into it.
pub fn unguarded(cell: &str) -> Cow<'_, str> {
    let is_guard = |at: &usize| cell[*at..].strip_prefix(GUARD).is_some_and(is_guarded);
    let mut text = String::new();
    let mut copied = 0;
    for at in parts(cell).filter(is_guard) {
        text.push_str(&cell[copied..at]);
        copied = at + GUARD.len_utf8();
    }
    if copied == 0 {
        return Cow::Borrowed(cell);
    }
    text.push_str(&cell[copied..]);
    Cow::Owned(text)
}

/// Returns the cell, in quotes if a reader with comma or semicolon as separator could take it for several.
pub fn quoted(cell: &str) -> Cow<'_, str> {
    if cell.contains([',', ';', '"', '\r', '\n']) {
        Cow::Owned(format!("\"{}\"", cell.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(cell)
    }
}

/// Returns the places at which a spreadsheet may begin a cell.
fn parts(text: &str) -> impl Iterator<Item = usize> + '_ {
    let ends = text.match_indices(SEPARATORS);
    // All separators have one byte.
    std::iter::once(0).chain(ends.map(|(at, _)| at + 1))
}

/// Returns true if a formula could begin here. A reader takes quotes away, doubled ones too.
fn is_guarded(part: &str) -> bool {
    part.trim_start_matches('"').starts_with(GUARDED)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn formulas_get_an_apostrophe() {
        for text in [
            "=1+1", "+1", "-1", "@SUM(A1)", "'=1", "\rx", "＝1", "＋1", "－1", "＠x", "\"=1",
        ] {
            assert_eq!(guarded(text), format!("'{text}"));
            assert_eq!(unguarded(&guarded(text)), text);
        }
        for text in [
            "",
            "DE",
            "a=b",
            " =1",
            "; =1",
            "news.example",
            "a;b",
            "it's;x",
        ] {
            assert_eq!(guarded(text), text);
            assert_eq!(unguarded(text), text);
        }
    }

    #[test]
    fn formulas_after_other_separators_are_guarded() {
        for (text, expected) in [
            ("a;=HYPERLINK(A1)", "a;'=HYPERLINK(A1)"),
            ("https://example.com/;=1+1;", "https://example.com/;'=1+1;"),
            ("a;+1;@b;－2;'c", "a;'+1;'@b;'－2;''c"),
            ("a\t=1", "a\t'=1"),
            ("\t=1", "'\t'=1"),
            ("a\n=1\r\n-1", "a\n'=1\r\n'-1"),
            ("a;\"=1&\"\";b", "a;'\"=1&\"\";b"),
        ] {
            assert_eq!(guarded(text), expected);
            assert_eq!(unguarded(expected), text);
        }
    }

    /// A column of usual addresses is therefore a file that any program reads unchanged.
    #[test]
    fn usual_addresses_of_links_are_never_changed() {
        for text in [
            "https://example.com/?a='=1",
            "https://example.com/a;b=1?c=-1;d",
            "http://sho.rt/Spring",
        ] {
            assert!(matches!(guarded(text), Cow::Borrowed(same) if same == text));
        }
    }

    /// Splits a line of our CSV at `;`, as a spreadsheet does that knows no other separator.
    fn cells_of_semicolons(csv: &str) -> Vec<String> {
        let mut reader = csv.chars().peekable();
        let (mut cells, mut cell, mut is_begin) = (Vec::new(), String::new(), true);
        while let Some(character) = reader.next() {
            match character {
                '"' if is_begin => {
                    while let Some(inside) = reader.next() {
                        if inside != '"' {
                            cell.push(inside);
                        } else if reader.next_if_eq(&'"').is_some() {
                            cell.push('"');
                        } else {
                            break;
                        }
                    }
                    is_begin = false;
                }
                ';' | '\n' | '\r' => {
                    cells.push(std::mem::take(&mut cell));
                    is_begin = true;
                }
                character => {
                    cell.push(character);
                    is_begin = false;
                }
            }
        }
        cells.push(cell);
        cells
    }

    proptest! {
        #[test]
        fn guards_are_taken_away_without_doubt(
            text in proptest::collection::vec(
                proptest::sample::select("=+-@＝＋－＠'\"\t\r\n; ,aé".chars().collect::<Vec<_>>()), 0..24
            )
        ) {
            let text: String = text.into_iter().collect();
            let cell = guarded(&text);
            prop_assert_eq!(unguarded(&cell), text.as_str());
            let line = format!("lnk_1,{},x\r\n", quoted(&cell));
            for cell in cells_of_semicolons(&line) {
                prop_assert!(!cell.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']), "{:?}", cell);
            }
        }
    }
}
