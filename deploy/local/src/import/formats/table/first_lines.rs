//! The lines before the first row: empty ones, the one that names the separator, and the header.

use super::SEPARATORS;
use crate::import::blank::{is_blank, trimmed};

/// Takes away the first lines without text, also rows of empty cells and comments. Returns the number of these lines.
pub(super) fn without_empty_lines(text: &str) -> (&str, usize) {
    let says_nothing = |line: &&str| {
        let is_empty = |c: char| is_blank(c) || c == '"' || SEPARATORS.contains(&c);
        line.chars().all(is_empty) || line.starts_with('#') && !line.contains(SEPARATORS)
    };
    let empty = text.split_inclusive('\n').take_while(says_nothing);
    let (count, length) = empty.fold((0, 0), |(count, length), line| {
        (count + 1, length + line.len())
    });
    (&text[length..], count)
}

/// Returns the first line with text.
pub(in crate::import::formats) fn first_line(text: &str) -> &str {
    let (text, _) = without_empty_lines(text);
    trimmed(text.lines().next().unwrap_or_default())
}

/// Takes away a first line `sep=;`. Returns its separator, and the number of lines that are taken away.
pub(super) fn without_separator_line(text: &str) -> (Option<char>, &str, usize) {
    let (text, empty_lines) = without_empty_lines(text);
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let first = first
        .trim_matches(|c: char| is_blank(c) && c != '\t')
        .trim_matches('"');
    let named = first
        .get(..4)
        .filter(|begin| begin.eq_ignore_ascii_case("sep="));
    let separator = named.and_then(|_| first[4..].chars().next());
    match separator.filter(char::is_ascii) {
        Some(separator) => (Some(separator), rest, empty_lines + 1),
        None => (None, text, empty_lines),
    }
}

/// Returns the separator of a header: spreadsheets write semicolons where numbers have a comma.
pub(super) fn separator_of(header: &str) -> char {
    let count = |separator: char| header.matches(separator).count();
    // Of equal counts the last one wins: a header of one column has a comma.
    SEPARATORS
        .into_iter()
        .max_by_key(|separator| count(*separator))
        .unwrap_or(',')
}
