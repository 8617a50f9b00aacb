//! Slugs as they arrive on the short host: visitors cannot mend what a printer, a mail program or a thumb has done to
//! an address (`docs/api.md#redirects`).

use std::str;

use super::{Slug, destination::is_space_at_end};
use crate::percent;

/// Punctuation that texts put after an address. No slug ends with any of it.
///
/// `-` and `_` are missing: an address that a line break has cut after one of them would lead to another link.
const PUNCTUATION: &str = ".,;:!?)]}>\"'”’»›…。，、；：！？）」』】》";

/// Reads the slug out of a path without its first slash: the path itself, or what is left after decoding it once and
/// removing spaces, punctuation and at most one slash at its end.
///
/// Returns `None` if that is no slug; no link has such an address.
pub fn parse(path: &str) -> Option<Slug> {
    // Nearly every visitor sends the slug itself.
    if let Ok(slug) = Slug::parse_stored(path) {
        return Some(slug);
    }
    let decoded = decoded(path)?;
    let text = without_ending(str::from_utf8(&decoded).ok()?);
    Slug::parse_stored(text).ok()
}

/// Decodes the percent-encoded bytes, except a slash: an encoded one is no separator (RFC 3986, 2.2).
///
/// Returns `None` for such a slash, and for a `%` without two digits.
pub fn decoded(path: &str) -> Option<Vec<u8>> {
    let has_slash = path.contains("%2F") || path.contains("%2f");
    if has_slash {
        return None;
    }
    percent::decode(path)
}

fn without_ending(text: &str) -> &str {
    let text = text.trim_end_matches(is_added);
    let text = text.strip_suffix('/').unwrap_or(text);
    text.trim_end_matches(is_added)
}

/// Returns true for a space, a character that nobody sees, and punctuation.
fn is_added(c: char) -> bool {
    is_space_at_end(c) || PUNCTUATION.contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slug(path: &str) -> Option<String> {
        parse(path).map(|slug| slug.as_str().to_owned())
    }

    #[test]
    fn slug_is_taken_as_it_is() {
        for text in ["poster-26", "Sommer_Fest", "admin", "v2.1", "1"] {
            assert_eq!(slug(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn encoded_slug_is_decoded_once() {
        for path in [
            "%70oster-26",
            "poster%2D26",
            "poster%2d26",
            "%70%6F%73%74%65%72%2D%32%36",
        ] {
            assert_eq!(slug(path).as_deref(), Some("poster-26"), "{path}");
        }
        assert_eq!(slug("Sommer%5FFest").as_deref(), Some("Sommer_Fest"));
        for path in ["%2570oster-26", "poster%252D26", "poster%7E26", "poster%"] {
            assert_eq!(slug(path), None, "{path}");
        }
        for path in ["poster-2%6", "poster-26%", "poster%2G26", "poster%é6"] {
            assert_eq!(slug(path), None, "{path}");
        }
    }

    #[test]
    fn what_texts_add_at_the_end_is_removed() {
        let signs = [".", ",", ";", ":", "!", "?", ")", "]", "}", ">", "\"", "'"];
        let encoded = [
            "%2E", "%2c", "%3B", "%3A", "%21", "%3F", "%29", "%5d", "%7D", "%3E", "%22", "%27",
        ];
        let others = [
            "/",
            "%E2%80%8B",
            "\u{200b}",
            "%C2%A0",
            "\u{a0}",
            "%20",
            "%0D%0A",
            "%09",
            "%EF%BB%BF",
            "%E2%80%9D",
            "%E3%80%82",
            "...",
            ").",
            "/).",
            ")./",
            ".%20",
            "%22%3E",
            "%E2%80%8B/",
        ];
        for ending in signs.iter().chain(&encoded).chain(&others) {
            let path = format!("Poster-26{ending}");
            assert_eq!(slug(&path).as_deref(), Some("Poster-26"), "{path}");
        }
        assert_eq!(slug("v2.1.").as_deref(), Some("v2.1"));
        assert_eq!(slug("v2%2E1/").as_deref(), Some("v2.1"));
        assert_eq!(slug("%70oster%2D26%20/").as_deref(), Some("poster-26"));
    }

    #[test]
    fn other_paths_have_no_slug() {
        for path in [
            "",
            "/",
            "//",
            ".",
            "..",
            "%20",
            "poster-26//",
            "poster-26/./",
            "/poster-26",
            "poster/26",
            "poster%2F26",
            "poster-26%2F",
            ".poster-26",
            "%20poster-26",
            "poster%2026",
            "poster,26",
            "poster-26-",
            "poster-26_",
            "poster-26*",
            "poster-26+",
            "poster-26~",
            "poster-26&x",
            "poster-26%00",
            "poster-26%C3%A9",
            "poster-26é",
            "poster-26%FF",
            "poster-26%A0",
            "poster-26%E2%80",
        ] {
            assert_eq!(slug(path), None, "{path}");
        }
        let longest = "a".repeat(64);
        assert_eq!(slug(&format!("{longest}.")), Some(longest.clone()));
        assert_eq!(slug(&format!("{longest}a.")), None);
    }

    #[test]
    fn every_result_is_a_slug_of_the_path() {
        let parts = [
            "",
            "a",
            "26",
            "-",
            "_",
            ".",
            "/",
            "%2D",
            "%2F",
            "%",
            "%25",
            ")",
            "%E2%80%8B",
            "é",
        ];
        let mut paths = vec![String::new()];
        for _ in 0..4 {
            let longer = |path: &String| parts.map(|part| format!("{path}{part}"));
            paths = paths.iter().flat_map(longer).collect();
        }
        for path in paths {
            let Some(found) = slug(&path) else {
                assert!(Slug::parse_stored(&path).is_err(), "{path}");
                continue;
            };
            assert!(Slug::parse_stored(&found).is_ok(), "{path}: {found}");
            if Slug::parse_stored(&path).is_ok() {
                assert_eq!(found, path);
            }
            let decoded = path.replace("%2D", "-");
            let ending = decoded.strip_prefix(found.as_str()).expect(&path);
            let has_letters = ending
                .replace("%E2%80%8B", "")
                .chars()
                .any(char::is_alphanumeric);
            assert!(!has_letters, "{path}: {found}");
            assert!(path.matches('/').count() <= 1, "{path}: {found}");
        }
    }
}
