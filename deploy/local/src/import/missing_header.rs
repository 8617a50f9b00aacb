//! A list of addresses that is CSV without its header: each line would become an address with the slug at its end.

use std::{borrow::Cow, collections::HashSet};

use super::{blank::trimmed, destination::is_address, record::is_slug};

/// Separators that the cells of a file can have. Of these, only a tab is never part of an address.
const SEPARATORS: [char; 4] = ['\t', ';', ',', '|'];
/// Share of the lines that have the form of rows, in percent.
const ROWS_PERCENT: usize = 80;
/// Share of these rows whose slugs differ: a part of an address, such as a language, is repeated.
const DISTINCT_PERCENT: usize = 80;
/// Number of lines from which their form says something about a file.
const LINES_MIN: usize = 2;

/// Returns the header that a list of addresses lacks; `None` for addresses.
pub(super) fn missing_header(text: &str) -> Option<String> {
    let lines = || text.lines().map(trimmed).filter(|line| !line.is_empty());
    let count = lines().count();
    let is_enough = |part: usize, whole: usize, percent: usize| part * 100 >= whole * percent;
    SEPARATORS.into_iter().find_map(|separator| {
        let lines_min = if separator == '\t' { 1 } else { LINES_MIN };
        if count < lines_min {
            return None;
        }
        for is_slug_first in [false, true] {
            let mut slugs = HashSet::new();
            let (mut rows, mut with_slug) = (0, 0);
            for slug in lines().filter_map(|line| slug_of_row(line, separator, is_slug_first)) {
                rows += 1;
                if !slug.is_empty() {
                    with_slug += 1;
                    slugs.insert(slug.to_ascii_lowercase());
                }
            }
            let are_rows = is_enough(rows, count, ROWS_PERCENT)
                && is_enough(with_slug, rows.max(1), 50)
                && is_enough(slugs.len(), with_slug, DISTINCT_PERCENT);
            if are_rows {
                return Some(match is_slug_first {
                    false => format!("destination_url{separator}slug"),
                    true => format!("slug{separator}destination_url"),
                });
            }
        }
        None
    })
}

/// Returns the slug of a line that looks like a row, perhaps empty.
fn slug_of_row(line: &str, separator: char, is_slug_first: bool) -> Option<Cow<'_, str>> {
    let mut cells = line
        .split(separator)
        .map(|cell| trimmed(cell).trim_matches('"'));
    let (first, second) = (cells.next()?, cells.next()?);
    let (address, slug) = if is_slug_first {
        (second, first)
    } else {
        (first, second)
    };
    let is_row = is_address(address) && (slug.is_empty() && !is_slug_first || is_slug(slug));
    is_row.then_some(Cow::Borrowed(slug))
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
            ("https://e.com/menu\tv1menu\n", "destination_url\tslug"),
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
        ] {
            assert_eq!(missing_header(text).as_deref(), Some(header), "{text}");
        }
        let mut nearly: String = (0..9)
            .map(|n| format!("https://e.com/{n};s{n}\n"))
            .collect();
        nearly.push_str("https://e.com/x;2023/review\n");
        assert!(missing_header(&nearly).is_some());
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
            assert_eq!(missing_header(text), None, "{text}");
        }
    }

    #[test]
    fn real_addresses_are_no_rows() {
        assert_eq!(
            missing_header(include_str!("../../tests/data/homepages.txt")),
            None
        );
    }
}
