//! `If-Match` and `If-None-Match`; each line of the input is the value of one header.

use axum::http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{IF_MATCH, IF_NONE_MATCH},
};
use linkledger_core::link::ExpectedVersion;
use linkledger_http::entity_tag::{expected_version, if_none_match_names, of_version};

/// A version that no seed names.
const VERSION: i64 = 4_711_471_147_114_711;

/// Only strong tags in the header are expected; a tag that matches strongly also matches weakly; no header hides
/// another header; and a header without a tag in quotes is refused.
pub(crate) fn property(input: &[u8]) -> bool {
    let values: Result<Vec<_>, _> = input
        .split(|byte| *byte == b'\n')
        .map(HeaderValue::from_bytes)
        .collect();
    let Ok(mut values) = values else {
        return false;
    };
    let named = match expected_version(&headers(&IF_MATCH, &values)) {
        Err(_) => {
            // One malformed header makes all of them malformed.
            values.push(of_version(VERSION).parse().unwrap());
            let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b',' | b'\n');
            let is_refused = expected_version(&headers(&IF_MATCH, &values)).is_err();
            assert!(is_refused || input.iter().all(is_blank));
            return false;
        }
        Ok(ExpectedVersion::Any) => {
            assert_eq!(input.trim_ascii(), b"*");
            values.push(of_version(VERSION).parse().unwrap());
            assert!(expected_version(&headers(&IF_MATCH, &values)).is_err());
            return true;
        }
        Ok(ExpectedVersion::OneOf(versions)) => versions,
    };
    for version in &named {
        let tag = of_version(*version);
        let stands_there = input
            .windows(tag.len())
            .enumerate()
            .any(|(at, part)| part == tag.as_bytes() && !input[..at].ends_with(b"W/"));
        assert!(stands_there, "{tag}");
        assert!(
            if_none_match_names(&headers(&IF_NONE_MATCH, &values), &tag),
            "{tag}"
        );
    }
    values.push(of_version(VERSION).parse().unwrap());
    let expected = expected_version(&headers(&IF_MATCH, &values));
    assert!(matches!(
        &expected,
        Ok(ExpectedVersion::OneOf(versions)) if versions.contains(&VERSION)
    ));
    assert!(if_none_match_names(
        &headers(&IF_NONE_MATCH, &values),
        &of_version(VERSION)
    ));
    !named.is_empty()
}

fn headers(name: &HeaderName, values: &[HeaderValue]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(name, value.clone());
    }
    headers
}

#[test]
fn only_listed_tags_match() {
    super::seeds::explore("entity_tag", property);
}
