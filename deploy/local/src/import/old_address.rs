//! The slug in an old short address. The slug is the whole path or nothing: a printed address must lead to its link
//! afterwards, or be refused by name.

use linkledger_core::{
    field::FieldCode,
    link::{Slug, printed_slug},
};

use super::{
    blank::trimmed,
    record::{Refusal, shown},
};

/// The slug in an old address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OldSlug {
    pub(super) slug: String,
    /// True if the slug is not written in the address just as it is: a slash at the end, encoded letters, a fragment.
    pub(super) is_fitted: bool,
}

/// Returns host and port of an old address, and the rest; `None` for a slug alone.
fn parts(address: &str) -> Option<(&str, &str)> {
    let address = trimmed(address);
    let (has_scheme, rest) = match address.split_once("//") {
        Some((scheme, rest)) if scheme.is_empty() || scheme.ends_with(':') => (true, rest),
        _ => (false, address),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, tail) = rest.split_at(end);
    let is_slug = tail.is_empty() && !has_scheme && !host.contains(['.', ':']);
    (!is_slug).then_some((host, tail))
}

/// Returns host and port of an old address; `None` for a slug alone.
pub(super) fn host(address: &str) -> Option<&str> {
    let (host, _) = parts(address)?;
    (!host.is_empty()).then_some(host)
}

/// Reads an old address, with or without a scheme. A text that names no host is a slug.
///
/// # Errors
/// Returns a refusal if the path is more than a slug, or if a query tells links apart.
pub(super) fn parse(address: &str) -> Result<OldSlug, Refusal> {
    let Some((_, tail)) = parts(address) else {
        let slug = checked(trimmed(address), address)?;
        return Ok(OldSlug {
            slug,
            is_fitted: false,
        });
    };
    let (tail, fragment) = tail.split_once('#').unwrap_or((tail, ""));
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    if !query.is_empty() {
        let detail = format!(
            "The old address has a query, \"?{}\", which no slug has: it can't be told from \
             the same address without the query.",
            shown(query)
        );
        return Err(Refusal::new("slug_has_query", detail));
    }
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.trim_matches('/').is_empty() {
        return Err(Refusal::no_slug());
    }
    let written = path.strip_suffix('/').unwrap_or(path);
    let decoded = printed_slug::decoded(written).and_then(|bytes| String::from_utf8(bytes).ok());
    let slug = checked(decoded.as_deref().unwrap_or(written), path)?;
    let is_fitted = slug != path || !fragment.is_empty();
    Ok(OldSlug { slug, is_fitted })
}

/// Returns the slug whose link visitors of an old address reach once its domain points here: the short host passes over
/// the query, letter case, and what a printer or a mail program has added.
pub(super) fn reached_slug(address: &str) -> Option<Slug> {
    let Some((_, tail)) = parts(address) else {
        return printed_slug::parse(trimmed(address));
    };
    let path = tail.split(['?', '#']).next()?;
    printed_slug::parse(path.strip_prefix('/')?)
}

/// Checks a slug; `written` is the text of the file.
pub(super) fn checked(slug: &str, written: &str) -> Result<String, Refusal> {
    match Slug::parse(slug) {
        Ok(slug) => Ok(slug.as_str().to_owned()),
        Err(code) => Err(refusal(code, written)),
    }
}

fn refusal(code: FieldCode, written: &str) -> Refusal {
    let why = if code == FieldCode::SlugReserved {
        "this service keeps the name for itself."
    } else if code == FieldCode::SlugInvalidCharacter && written.contains('/') {
        "a slug has no \"/\", and a part of the path would be another address."
    } else {
        code.detail()
    };
    let detail = format!("\"{}\" can't be a slug here: {why}", shown(written));
    Refusal::new(code.as_str(), detail)
}

/// Returns an address without the user and password before its host. A slug alone stays as it is.
pub(super) fn without_user(address: &str) -> String {
    let host = parts(address).map_or("", |(host, _)| host);
    match host.rsplit_once('@') {
        Some((user, _)) => address.replacen(&format!("{user}@"), "", 1),
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visitors_reach_the_slug_that_the_short_host_reads() {
        for (address, expected) in [
            ("https://s.test/zend.", Some("zend")),
            ("https://s.test/Zend/?utm=1#top", Some("Zend")),
            ("s.test/%7Aend", Some("zend")),
            ("zend", Some("zend")),
            ("https://s.test/a/b", None),
            ("https://s.test/", None),
            ("s.test", None),
        ] {
            let reached = reached_slug(address);
            assert_eq!(reached.as_ref().map(Slug::as_str), expected, "{address}");
        }
    }

    fn slug(address: &str) -> Result<(String, bool), &'static str> {
        let parsed = parse(address).map(|old| (old.slug, old.is_fitted));
        parsed.map_err(|refusal| refusal.code)
    }

    #[test]
    fn whole_path_of_an_old_address_is_the_slug() {
        for (address, expected, is_fitted) in [
            ("https://s.test/abc", "abc", false),
            (" https://s.test:8080/abc\u{200b}", "abc", false),
            ("s.test/v1.2", "v1.2", false),
            ("//s.test/AbC", "AbC", false),
            ("https://s.test/1", "1", false),
            ("abc", "abc", false),
            ("https://s.test/abc/", "abc", true),
            ("https://s.test/abc#top", "abc", true),
            ("https://s.test/%61b%2Dc", "ab-c", true),
            ("https://s.test/abc?", "abc", false),
        ] {
            assert_eq!(
                slug(address),
                Ok((expected.to_owned(), is_fitted)),
                "{address}"
            );
        }
        assert_eq!(host("https://s.test:8080/a/b"), Some("s.test:8080"));
        assert_eq!((host("s.test"), host("abc")), (Some("s.test"), None));
    }

    #[test]
    fn user_of_an_old_address_is_taken_away() {
        for (address, expected) in [
            (" https://u:p@s.test/a@b", " https://s.test/a@b"),
            ("u:p@s.test/a", "s.test/a"),
            ("a@b", "a@b"),
            ("s.test/@me", "s.test/@me"),
        ] {
            assert_eq!(without_user(address), expected);
        }
    }

    #[test]
    fn path_that_is_no_slug_is_never_shortened() {
        for (address, code) in [
            (
                "https://s.test/2023/year-in-review",
                "slug_invalid_character",
            ),
            ("s.test/go/x", "slug_invalid_character"),
            ("https://s.test//abc", "slug_invalid_character"),
            ("https://s.test/abc//", "slug_invalid_character"),
            ("https://s.test/a%2Fb", "slug_invalid_character"),
            ("https://s.test/%F0%9F%8D%8A", "slug_invalid_character"),
            ("https://s.test/gr\u{f6}\u{df}e", "slug_invalid_character"),
            ("https://s.test/100%", "slug_invalid_character"),
            ("https://s.test/a+b", "slug_invalid_character"),
            ("https://s.test/~me", "slug_invalid_character"),
            ("https://s.test/abc_", "slug_invalid_character"),
            ("https://s.test/admin", "slug_reserved"),
            ("https://s.test/abc?x=1", "slug_has_query"),
            ("https://s.test/?id=abc", "slug_has_query"),
            ("https://s.test/go.php?id=abc#x", "slug_has_query"),
            ("https://s.test/#/abc", "slug_missing"),
            ("https://s.test/", "slug_missing"),
            ("https://s.test", "slug_missing"),
            ("https://localhost", "slug_missing"),
            ("s.test", "slug_missing"),
            ("", "slug_too_short"),
        ] {
            assert_eq!(slug(address), Err(code), "{address}");
        }
        let refusal = parse("https://s.test/2023/year-in-review").unwrap_err();
        assert!(
            refusal
                .detail
                .starts_with("\"2023/year-in-review\" can't be a slug here: ")
        );
    }
}
