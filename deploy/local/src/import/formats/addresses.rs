//! A list of addresses, one on each line, after white space perhaps a slug; empty lines are skipped.

use super::{RawRecord, Refusal, SourceLinks};
use crate::import::blank::{is_blank, trimmed};

pub(super) fn parse(text: &str, links: &mut SourceLinks) {
    let numbered = text.lines().zip(1..);
    for (line, number) in numbered.filter(|(line, _)| !trimmed(line).is_empty()) {
        links.add(record(line, number));
    }
}

fn record(line: &str, number: usize) -> RawRecord {
    // Blanks at the ends belong to the address, so that the report can name those that nobody sees.
    let inside = trimmed(line);
    let at = inside.find(char::is_whitespace);
    let (slug, refusal) = match at.map(|at| inside[at..].trim_start_matches(is_blank)) {
        _ if is_comment(inside) => (None, Some(comment())),
        None => (None, None),
        Some(slug) if !slug.contains(char::is_whitespace) => (Some(slug.to_owned()), None),
        Some(_) => (None, Some(too_many_words())),
    };
    let destination_url = match (at, &slug) {
        (Some(at), Some(_)) => &inside[..at],
        _ => line,
    };
    RawRecord {
        number,
        destination_url: destination_url.to_owned(),
        slug,
        refusal,
        ..RawRecord::default()
    }
}

/// Returns true for a line that people write for people: its words are no slugs.
fn is_comment(line: &str) -> bool {
    let words = line.strip_prefix("//");
    line.starts_with('#')
        || words.is_some_and(|words| words.is_empty() || words.starts_with(char::is_whitespace))
}

fn comment() -> Refusal {
    let detail = "A line that begins with # or // is no address: take it away.";
    Refusal::new("url_invalid", detail)
}

fn too_many_words() -> Refusal {
    let detail = "The line has more than an address and a slug. An address has no spaces: write %20; titles and \
                  tags need a CSV file with the columns destination_url, slug, title and tags.";
    Refusal::new("url_invalid", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_an_address_and_perhaps_a_slug() {
        let slug_of = |line: &str| {
            let record = record(line, 1);
            (
                record.destination_url,
                record.slug,
                record.refusal.map(|it| it.code),
            )
        };
        let address = || "https://e.com/".to_owned();
        assert_eq!(slug_of("https://e.com/"), (address(), None, None));
        assert_eq!(
            slug_of(" https://e.com/ \t menu "),
            (address(), Some("menu".to_owned()), None)
        );
        assert_eq!(slug_of("https://e.com/ a b").2, Some("url_invalid"));
        for comment in ["# menu", "// menu", "#"] {
            assert_eq!(
                slug_of(comment),
                (comment.to_owned(), None, Some("url_invalid"))
            );
        }
    }
}
