//! The one table of paths and methods, from which both services answer 404, 405 and `Allow`.

use axum::http::Method;

/// The collection of links.
pub const LINKS: &str = "/v1/links";
/// One link.
pub const LINK: &str = "/v1/links/{id}";

/// Each path with the methods that clients may use on it.
const TABLE: [(&str, &[Method]); 2] = [
    (LINKS, &[Method::GET, Method::HEAD, Method::POST]),
    (LINK, &[Method::GET, Method::HEAD]),
];

/// The value of `Allow` for the path of a request; `None` when there is nothing at that path.
pub fn allowed_methods(path: &str) -> Option<String> {
    let (_, methods) = TABLE.iter().find(|(pattern, _)| matches(pattern, path))?;
    let names = methods.iter().map(Method::as_str).chain(["OPTIONS"]);
    Some(names.collect::<Vec<_>>().join(", "))
}

/// Paths are exact: no trailing slash, no empty part, no folding of case.
fn matches(pattern: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    let mut patterns = pattern.split('/');
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some(pattern), Some(part)) if pattern.starts_with('{') && !part.is_empty() => {}
            (Some(pattern), Some(part)) if pattern == part => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_knows_its_methods() {
        assert_eq!(
            allowed_methods("/v1/links").as_deref(),
            Some("GET, HEAD, POST, OPTIONS")
        );
        assert_eq!(
            allowed_methods("/v1/links/lnk_1").as_deref(),
            Some("GET, HEAD, OPTIONS")
        );
    }

    #[test]
    fn paths_are_exact() {
        for path in [
            "",
            "/",
            "/v1",
            "/v1/links/",
            "/v1//links",
            "/V1/links",
            "/v1/links/a/b",
        ] {
            assert_eq!(allowed_methods(path), None, "{path}");
        }
    }
}
