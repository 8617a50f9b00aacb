//! Slugs.

use linkledger_core::link::Slug;

const RESERVED: [&str; 14] = [
    ".well-known",
    "admin",
    "api",
    "docs",
    "favicon.ico",
    "health",
    "livez",
    "metrics",
    "openapi",
    "openapi.json",
    "readyz",
    "robots.txt",
    "sitemap.xml",
    "v1",
];

/// A slug keeps its spelling, needs no encoding in a path, and lowering its case twice equals doing so once.
pub(crate) fn property(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else {
        return false;
    };
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_slug = (1..=64).contains(&text.len())
        && text.bytes().all(is_inner)
        && !text.starts_with(['-', '_', '.'])
        && !text.ends_with(['-', '_', '.']);
    let stored = Slug::parse_stored(text);
    assert_eq!(stored.is_ok(), is_slug, "{text:?}");
    let is_reserved = RESERVED.contains(&text.to_ascii_lowercase().as_str());
    let slug = Slug::parse(text);
    assert_eq!(slug.is_ok(), is_slug && !is_reserved, "{text:?}");
    slug.is_ok_and(|slug| {
        assert_eq!(slug.as_str(), text);
        let key = Slug::parse(&slug.key()).unwrap();
        assert_eq!(key.as_str(), key.key());
        assert!(slug.as_str().eq_ignore_ascii_case(key.as_str()));
        true
    })
}

#[test]
fn a_slug_keeps_its_spelling_and_is_lower_cased_once() {
    super::seeds::explore("slug", property);
}
