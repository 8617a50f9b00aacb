//! Entity tags: the version of a link's stream, and the conditions that callers send (RFC 9110,
//! 8.8.3, 13.1).

use axum::http::{
    HeaderMap, HeaderName,
    header::{IF_MATCH, IF_NONE_MATCH},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use utoipa::IntoParams;

use crate::link::ExpectedVersion;

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
    lists(headers, &IF_NONE_MATCH)
        .any(|list| is_any(list) || EntityTags(list).any(|tag| tag.opaque == current))
}

/// Returns the versions that `If-Match` names, compared strongly. Weak and malformed tags are
/// ignored, so they match no version.
pub fn expected_version(headers: &HeaderMap) -> ExpectedVersion {
    if !headers.contains_key(IF_MATCH) || lists(headers, &IF_MATCH).any(is_any) {
        return ExpectedVersion::Any;
    }
    let tags = lists(headers, &IF_MATCH).flat_map(EntityTags);
    let version = |tag: EntityTag<'_>| {
        let version = tag.opaque.trim_matches('"').parse().ok()?;
        (!tag.is_weak && of_version(version) == tag.opaque).then_some(version)
    };
    ExpectedVersion::OneOf(tags.filter_map(version).collect())
}

fn lists<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
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
        let rest = self.0.trim_start_matches(|c| is_space(c) || c == ',');
        let opaque = rest.strip_prefix("W/").unwrap_or(rest);
        let length = opaque.strip_prefix('"')?.find('"')? + 2;
        let (tag, after) = opaque.split_at(length);
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
        ] {
            assert!(!fails(&[value]), "{value}");
        }
        assert!(!fails(&[]));
    }

    fn expected(values: &[&str]) -> ExpectedVersion {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_MATCH, HeaderValue::from_str(value).unwrap());
        }
        expected_version(&headers)
    }

    #[test]
    fn missing_if_match_or_star_expects_any() {
        for values in [&[][..], &["*"], &[" * "]] {
            assert_eq!(expected(values), ExpectedVersion::Any, "{values:?}");
        }
    }

    #[test]
    fn weak_tags_are_never_expected() {
        for (values, versions) in [
            (&["\"7\""][..], &[7][..]),
            (&["\"7\", \"8\""], &[7, 8]),
            (&["\"7\"", "\"8\""], &[7, 8]),
            (&["W/\"7\""], &[]),
            (&["W/\"7\",\"8\""], &[8]),
            (&["\"07\", \"+7\", \"7 \", \"x\", \"\""], &[]),
            (&["7"], &[]),
            (&[""], &[]),
            (&["\"7"], &[]),
            (&["\"99999999999999999999\""], &[]),
        ] {
            let one_of = ExpectedVersion::OneOf(versions.to_vec());
            assert_eq!(expected(values), one_of, "{values:?}");
        }
    }
}
