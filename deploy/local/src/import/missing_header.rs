//! A list of addresses that is CSV without its header: each line would become an address with the slug at its end.

use std::collections::HashSet;

use super::{blank::trimmed, destination::is_address, record::is_slug};

/// Separators that the cells of a file can have. Of these, only a tab is never part of an address.
pub(super) const SEPARATORS: [char; 4] = ['|', '\t', ';', ','];
/// Share of the lines that have the form of rows, in percent.
const ROWS_PERCENT: usize = 80;
/// Share of these rows whose slugs differ: a part of an address, such as a language, is repeated.
const DISTINCT_PERCENT: usize = 80;
/// Number of lines from which their form says something about a file.
const LINES_MIN: usize = 2;

/// Returns the header that a list of addresses lacks; `None` for addresses. `own` is the separator of a table, whose
/// rows may have it.
pub(super) fn missing_header(text: &str, own: Option<char>) -> Option<String> {
    let lines = || text.lines().map(trimmed).filter(|line| !line.is_empty());
    let count = lines().count();
    let is_enough = |part: usize, whole: usize, percent: usize| part * 100 >= whole * percent;
    let others = SEPARATORS.into_iter().filter(|one| Some(*one) != own);
    others.into_iter().find_map(|separator| {
        let lines_min = if separator == '\t' { 1 } else { LINES_MIN };
        if count < lines_min {
            return None;
        }
        for is_slug_first in [false, true] {
            let mut slugs = HashSet::new();
            let (mut rows, mut with_slug, mut addresses) = (0, 0, 0);
            for slug in lines().filter_map(|line| row_of(line, separator, is_slug_first)) {
                rows += 1;
                if !slug.is_empty() {
                    with_slug += 1;
                    addresses += usize::from(!is_slug(slug));
                    slugs.insert(slug.to_ascii_lowercase());
                }
            }
            let are_rows = is_enough(rows, count, ROWS_PERCENT)
                && is_enough(with_slug, rows.max(1), 50)
                && is_enough(slugs.len(), with_slug, DISTINCT_PERCENT);
            if are_rows {
                let name = if addresses * 2 > with_slug {
                    "short_url"
                } else {
                    "slug"
                };
                let shown = if separator == '\t' {
                    "<tab>".to_owned()
                } else {
                    separator.to_string()
                };
                return Some(if is_slug_first {
                    format!("{name}{shown}destination_url")
                } else {
                    format!("destination_url{shown}{name}")
                });
            }
        }
        None
    })
}

/// Returns the slug, or the old address, of a line that looks like a row; perhaps empty.
pub(super) fn row_of(line: &str, separator: char, is_slug_first: bool) -> Option<&str> {
    let mut cells = line.split(separator).map(unquoted);
    let (first, second) = (cells.next()??, cells.next()??);
    let (address, slug) = if is_slug_first {
        (second, first)
    } else {
        (first, second)
    };
    let is_row = is_address(address) && (slug.is_empty() && !is_slug_first || is_old(slug));
    is_row.then_some(slug)
}

/// Returns a cell without its quotation marks; `None` for a part of a cell.
fn unquoted(cell: &str) -> Option<&str> {
    let cell = trimmed(cell);
    match (cell.strip_prefix('"'), cell.strip_suffix('"')) {
        (None, None) => Some(cell),
        (Some(begun), Some(_)) => begun.strip_suffix('"'),
        _ => None,
    }
}

/// Returns true for a slug, an address, and what another product takes for a slug: a path, or other scripts.
fn is_old(text: &str) -> bool {
    let is_part = |c: char| {
        c.is_alphanumeric() || "-._~%/".contains(c) || !c.is_ascii() && !c.is_whitespace()
    };
    is_slug(text)
        || !text.contains(SEPARATORS) && !text.contains(char::is_whitespace) && is_address(text)
        || !text.is_empty()
            && text.contains(|c: char| c == '/' || !c.is_ascii())
            && text.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_a_header_are_recognised() {
        for (text, header) in [
            (
                "https://e.com/menu;v2menu\nhttps://e.com/map;v2map\n",
                "destination_url;slug",
            ),
            (
                "https://e.com/menu,v1menu\n\nhttps://e.com/map,v1map,Title\n",
                "destination_url,slug",
            ),
            ("https://e.com/menu\tv1menu\n", "destination_url<tab>slug"),
            (
                "e.com/menu|a\ne.com/map|b\ne.com/x|\n",
                "destination_url|slug",
            ),
            (
                "\"https://e.com/?x=1,2\";\"a\"\r\n\"https://e.com/2\" ; \"b\"\r\n",
                "destination_url;slug",
            ),
            (
                "1,https://e.com/1\n2,https://e.com/2\n",
                "slug,destination_url",
            ),
            (
                "https://e.com/a;https://s.test/one\nhttps://e.com/b;https://s.test/two\n",
                "destination_url;short_url",
            ),
            (
                "https://e.com/a;2023/x\nhttps://e.com/b;2024/y\nhttps://e.com/c;c\n",
                "destination_url;short_url",
            ),
            (
                "https://e.com/a|grüße\nhttps://e.com/b|straße\n",
                "destination_url|short_url",
            ),
        ] {
            assert_eq!(
                missing_header(text, None).as_deref(),
                Some(header),
                "{text}"
            );
        }
        let mut nearly: Vec<_> = (0..9).map(|n| format!("https://e.com/{n};s{n}")).collect();
        nearly.push("https://e.com/x;2023/review".to_owned());
        assert!(missing_header(&nearly.join("\n"), None).is_some());
    }

    #[test]
    fn addresses_with_separators_inside_are_addresses() {
        for text in [
            "",
            "https://e.com/a;b\n",
            "https://e.com/a;b\nhttps://e.com/?x=1,2\nhttps://e.com/\n",
            "https://e.com/p;jsessionid=1\nhttps://e.com/q;jsessionid=2\n",
            "https://e.com/1,de\nhttps://e.com/2,de\nhttps://e.com/3,de\n",
            "https://fonts.example.com/css?family=A|B\n",
            "https://e.com/@52.5,13.4,15z\nhttps://e.com/@48.1,11.5,12z\nhttps://e.com/\n",
        ] {
            assert_eq!(missing_header(text, None), None, "{text}");
        }
    }

    #[test]
    fn real_addresses_are_no_rows() {
        assert_eq!(
            missing_header(include_str!("../../tests/data/homepages.txt"), None),
            None
        );
    }
}
