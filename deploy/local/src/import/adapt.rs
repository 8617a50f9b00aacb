//! Rules that turn links of other products into links of this service. No I/O.

use std::collections::BTreeSet;

use super::{
    formats::{SourceLink, SourceRefusal},
    link::{ImportedLink, LinkDetails},
    report::SourceReport,
};

/// Maximum length of a tag and of a title, in characters, as in the API.
const TAG_LENGTH_MAX: usize = 64;
const TITLE_LENGTH_MAX: usize = 200;

/// A link as another product exports it.
#[derive(Debug, Default)]
pub(super) struct ForeignLink<'a> {
    pub(super) destination_url: &'a str,
    pub(super) slug: Option<&'a str>,
    pub(super) title: Option<&'a str>,
    pub(super) tags: Vec<&'a str>,
    pub(super) expires_at: Option<&'a str>,
    pub(super) created_at: Option<&'a str>,
    /// Reason to refuse the link without asking the service.
    pub(super) refusal: Option<SourceRefusal>,
}

impl ForeignLink<'_> {
    /// Adapts the link to the rules of the API. The report counts the changes.
    pub(super) fn adapt(self, number: usize, report: &mut SourceReport) -> SourceLink {
        let mut refusal = self.refusal;
        let title = self.title.and_then(title);
        if title.as_deref() != self.title.filter(|title| !title.is_empty()) {
            report.count_changed("titles");
        }
        let mut tags = BTreeSet::new();
        for given in self.tags {
            match tag(given) {
                Some(tag) => {
                    if tag != given {
                        report.count_changed("tags");
                    }
                    tags.insert(tag);
                }
                None => {
                    refusal.get_or_insert_with(|| SourceRefusal {
                        code: "tag_invalid",
                        detail: format!("No letter a to z and no digit is in the tag {given:?}."),
                    });
                }
            }
        }
        if let Some(created_at) = self.created_at {
            report.count_created(created_at);
        }
        SourceLink {
            number,
            link: ImportedLink {
                destination_url: self.destination_url.to_owned(),
                slug: self.slug.map(ToOwned::to_owned),
                details: LinkDetails {
                    title,
                    tags: tags.into_iter().collect(),
                    expires_at: self.expires_at.map(ToOwned::to_owned),
                    ..LinkDetails::default()
                },
            },
            refusal,
        }
    }
}

/// Makes an allowed tag: lower case, `-` for each run of other characters, no sign at the begin, no
/// `-` at the end, at most 64 characters; `None` if nothing is left.
fn tag(given: &str) -> Option<String> {
    let mut tag = String::new();
    for character in given.to_lowercase().chars() {
        let is_sign = matches!(character, '.' | '_' | ':' | '-');
        if character.is_ascii_alphanumeric() || (is_sign && !tag.is_empty()) {
            tag.push(character);
        } else if !tag.is_empty() && !tag.ends_with('-') {
            tag.push('-');
        }
    }
    tag.truncate(TAG_LENGTH_MAX);
    let length = tag.trim_end_matches('-').len();
    tag.truncate(length);
    (!tag.is_empty()).then_some(tag)
}

/// Makes an allowed title: one space for each run of white space and control characters, at most 200
/// characters; `None` if nothing is left.
fn title(given: &str) -> Option<String> {
    let is_gap = |character: char| character.is_whitespace() || character.is_control();
    let words: Vec<&str> = given
        .split(is_gap)
        .filter(|word| !word.is_empty())
        .collect();
    let title: String = words.join(" ").chars().take(TITLE_LENGTH_MAX).collect();
    let title = title.trim_end().to_owned();
    (!title.is_empty()).then_some(title)
}

/// Returns the path of a short address, with or without a scheme, between its outer slashes.
pub(super) fn path_of(short_url: &str) -> Option<&str> {
    let address = short_url
        .split_once("://")
        .map_or(short_url, |(_, rest)| rest);
    let (_host, path) = address.split_once('/')?;
    let end = path.find(['?', '#']).unwrap_or(path.len());
    Some(path[..end].trim_matches('/')).filter(|path| !path.is_empty())
}

/// Returns the last segment of the path of a short address.
pub(crate) fn last_segment_of(short_url: &str) -> Option<&str> {
    path_of(short_url)?.rsplit('/').next()
}

/// Splits the cell of tags, which commas separate.
pub(super) fn tags_of_cell(cell: Option<&str>) -> Vec<&str> {
    let tags = cell.unwrap_or_default().split(',').map(str::trim);
    tags.filter(|tag| !tag.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_gets_the_characters_of_the_api() {
        for (given, expected) in [
            ("spring", "spring"),
            ("Spring Sale", "spring-sale"),
            ("  Q1 / 2026  ", "q1-2026"),
            ("_x", "x"),
            ("a.b_c:d-e", "a.b_c:d-e"),
            ("Größe", "gr-e"),
            ("a--b", "a--b"),
            ("end!", "end"),
        ] {
            assert_eq!(tag(given).as_deref(), Some(expected), "{given}");
        }
        assert_eq!(tag("日本"), None);
        assert_eq!(tag("--"), None);
        let long = tag(&"a ".repeat(100)).unwrap();
        assert_eq!(long.len(), 63);
    }

    #[test]
    fn title_is_one_line_of_allowed_length() {
        assert_eq!(title(" a\tb\r\n c\u{7} ").as_deref(), Some("a b c"));
        assert_eq!(title(" \n").as_deref(), None);
        assert_eq!(title(&"é".repeat(500)).unwrap().chars().count(), 200);
    }

    #[test]
    fn slug_is_in_the_path_of_an_address() {
        for (address, path, segment) in [
            ("https://s.test/abc", Some("abc"), Some("abc")),
            ("s.test/a/b/?x=1", Some("a/b"), Some("b")),
            ("s.test/abc#top", Some("abc"), Some("abc")),
            ("https://s.test/", None, None),
            ("https://s.test", None, None),
            ("", None, None),
        ] {
            assert_eq!(
                (path_of(address), last_segment_of(address)),
                (path, segment)
            );
        }
    }

    #[test]
    fn adapted_link_counts_changes_and_merges_tags() {
        let mut report = SourceReport::default();
        let foreign = ForeignLink {
            destination_url: "https://example.com/",
            title: Some("A\nB"),
            tags: vec!["News", "news", "x"],
            created_at: Some("2020-01-01"),
            ..ForeignLink::default()
        };
        let adapted = foreign.adapt(1, &mut report);
        assert_eq!(adapted.link.details.title.as_deref(), Some("A B"));
        assert_eq!(adapted.link.details.tags, ["news", "x"]);
        assert!(adapted.refusal.is_none());
        let text = report.text();
        assert!(
            text.contains("1  titles") && text.contains("1  tags"),
            "{text}"
        );
        let foreign = ForeignLink {
            tags: vec!["日本"],
            ..ForeignLink::default()
        };
        let refusal = foreign.adapt(2, &mut report).refusal.unwrap();
        assert_eq!(refusal.code, "tag_invalid");
    }
}
