//! Entity tags: the version of a link's stream, and the conditions that callers send (RFC 9110,
//! 8.8.3, 13.1).

use axum::http::{
    HeaderMap,
    header::{IF_MATCH, IF_NONE_MATCH},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use utoipa::IntoParams;

use crate::problem::Problem;
use linkledger_core::link::ExpectedVersion;

/// Bytes of the hash in the tag of a content; no two contents have the same hash by chance.
const CONTENT_HASH_LENGTH: usize = 16;

/// Header `If-None-Match`, for the documentation.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct IfNoneMatch {
    /// `ETag` of the version that the caller has. If the version is current, the answer is 304
    /// without a body.
    #[param(rename = "If-None-Match", required = false, format = "entity-tags")]
    if_none_match: String,
}

/// Header `If-Match`, for the documentation.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its schema is used")]
pub struct IfMatch {
    /// `ETag` of the version that the caller knows. If the link has another version, the link is
    /// not changed.
    #[param(rename = "If-Match", required = false, format = "entity-tags")]
    if_match: String,
}

/// Returns the strong entity tag of a version.
pub fn of_version(version: i64) -> String {
    format!("\"{version}\"")
}

/// Returns a strong entity tag of these bytes.
pub fn of_content(content: &[u8]) -> String {
    let hash = Sha256::digest(content);
    format!(
        "\"{}\"",
        URL_SAFE_NO_PAD.encode(&hash[..CONTENT_HASH_LENGTH])
    )
}

/// Returns true if `If-None-Match` contains the current tag, compared weakly. Malformed tags are
/// ignored, so the caller receives the whole answer.
pub fn if_none_match_names(headers: &HeaderMap, current: &str) -> bool {
    // Several headers are one list (RFC 9110, 5.3).
    let values = headers.get_all(IF_NONE_MATCH).iter();
    let texts: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    let list = texts.join(",");
    is_any(&list) || EntityTags(&list).any(|tag| tag.opaque == current)
}

/// Returns the versions that `If-Match` names, compared strongly: a weak tag, and a tag that this service never made,
/// match no version.
///
/// # Errors
/// Returns `invalid_header` for anything but `*` or a list of tags in quotes: a caller who forgets the quotes would
/// look for another change of the link in vain.
pub fn expected_version(headers: &HeaderMap) -> Result<ExpectedVersion, Problem> {
    let values = || headers.get_all(IF_MATCH).iter();
    if values().next().is_none() {
        return Ok(ExpectedVersion::Any);
    }
    // Several headers are one list (RFC 9110, 5.3).
    let texts: Option<Vec<&str>> = values().map(|value| value.to_str().ok()).collect();
    let list = texts.ok_or_else(Problem::if_match_malformed)?.join(",");
    if is_any(&list) {
        return Ok(ExpectedVersion::Any);
    }
    let mut versions = Vec::new();
    let mut tags = EntityTags(&list);
    for tag in &mut tags {
        let version = tag.opaque.trim_matches('"').parse().ok();
        let version = version.filter(|version| of_version(*version) == tag.opaque);
        versions.extend(version.filter(|_| !tag.is_weak));
    }
    if !tags.0.trim_matches(is_space_or_comma).is_empty() || !list.contains('"') {
        return Err(Problem::if_match_malformed());
    }
    Ok(ExpectedVersion::OneOf(versions))
}

fn is_any(list: &str) -> bool {
    list.trim_matches(is_space) == "*"
}

struct EntityTag<'a> {
    is_weak: bool,
    /// Tag including its quotes.
    opaque: &'a str,
}

/// The tags of a list, up to the first malformed tag.
struct EntityTags<'a>(&'a str);

impl<'a> Iterator for EntityTags<'a> {
    type Item = EntityTag<'a>;

    fn next(&mut self) -> Option<EntityTag<'a>> {
        let rest = self.0.trim_start_matches(is_space_or_comma);
        let opaque = rest.strip_prefix("W/").unwrap_or(rest);
        let length = opaque.strip_prefix('"')?.find('"')? + 2;
        let (tag, after) = opaque.split_at(length);
        let after = after.trim_start_matches(is_space);
        if !(after.is_empty() || after.starts_with(',')) {
            return None;
        }
        self.0 = after;
        Some(EntityTag {
            is_weak: opaque.len() != rest.len(),
            opaque: tag,
        })
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn is_space_or_comma(c: char) -> bool {
    is_space(c) || c == ','
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn fails(values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_NONE_MATCH, HeaderValue::from_str(value).unwrap());
        }
        if_none_match_names(&headers, &of_version(7))
    }

    #[test]
    fn current_tag_matches_anywhere_in_list() {
        for value in [
            "\"7\"",
            "W/\"7\"",
            "*",
            " * ",
            "\"6\", \"7\"",
            "\"6\",W/\"7\" ,\"8\"",
            ",, \"7\"",
            "\"a,b\", \"7\"",
            "\"\", \"7\"",
        ] {
            assert!(fails(&[value]), "{value}");
        }
        assert!(fails(&["\"6\"", "\"7\""]));
    }

    #[test]
    fn other_and_malformed_tags_do_not_match() {
        for value in [
            "",
            "7",
            "\"7",
            "\"77\"",
            "\"6\"",
            "\" 7\"",
            "w/\"7\"",
            "W/ \"7\"",
            "\"6\", *",
            "'7'",
            "\"6,\"7\"\"",
            "x, \"7\"",
            "\"7\" \"8\"",
            "\"6\"\"7\"",
        ] {
            assert!(!fails(&[value]), "{value}");
        }
        assert!(!fails(&[]));
    }

    fn expected(values: &[&str]) -> Result<ExpectedVersion, Problem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_MATCH, HeaderValue::from_str(value).unwrap());
        }
        expected_version(&headers)
    }

    #[test]
    fn missing_if_match_or_star_expects_any() {
        for values in [&[][..], &["*"], &[" * "]] {
            assert_eq!(expected(values), Ok(ExpectedVersion::Any), "{values:?}");
        }
    }

    #[test]
    fn weak_tags_are_never_expected() {
        for (values, versions) in [
            (&["\"7\""][..], &[7][..]),
            (&["\"7\", \"8\""], &[7, 8]),
            (&["\"7\"", "\"8\""], &[7, 8]),
            (&["", "\"7\",, "], &[7]),
            (&["\"7\"\t,\"8\" "], &[7, 8]),
            (&["W/\"7\""], &[]),
            (&["W/\"7\",\"8\""], &[8]),
            (&["\"07\", \"+7\", \"7 \", \"x\", \"\""], &[]),
            (&["\"a, b\""], &[]),
            (&["\"99999999999999999999\""], &[]),
        ] {
            let one_of = ExpectedVersion::OneOf(versions.to_vec());
            assert_eq!(expected(values), Ok(one_of), "{values:?}");
        }
    }

    #[test]
    fn if_match_without_quotes_is_malformed() {
        for values in [
            &["7"][..],
            &[""],
            &[" "],
            &[","],
            &["\"7"],
            &["7\""],
            &["'7'"],
            &["x"],
            &["w/\"7\""],
            &["W/7"],
            &["\"7\" 8"],
            &["\"7\" \"8\""],
            &["\"7\"\"8\""],
            &["\"6\", \"7\"W/\"8\""],
            &["\"7\", 8"],
            &["7, \"8\""],
            &["\"7\"", "8"],
            &["*, \"7\""],
            &["*", "\"7\""],
            &["*", "*"],
            &["\\\"7\\\""],
        ] {
            let malformed = Err(Problem::if_match_malformed());
            assert_eq!(expected(values), malformed, "{values:?}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(IF_MATCH, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(
            expected_version(&headers),
            Err(Problem::if_match_malformed())
        );
    }
}
