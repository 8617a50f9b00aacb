//! Table of paths and methods, from which both services answer 404, 405 and `Allow`.

use axum::http::Method;

/// Collection of links.
pub const LINKS: &str = "/v1/links";
/// Several new links in one request. Before [`LINK`], whose pattern matches the path too.
pub const LINK_BATCH: &str = "/v1/links/batch";
/// A single link.
pub const LINK: &str = "/v1/links/{id}";
/// Events of a link.
pub const LINK_HISTORY: &str = "/v1/links/{id}/history";
/// QR code of a link's short address.
pub const LINK_QR_CODE: &str = "/v1/links/{id}/qr";
/// Clicks of a link over time.
pub const LINK_CLICKS: &str = "/v1/links/{id}/clicks";
/// Most frequent values of a link's clicks.
pub const LINK_TOP_CLICKS: &str = "/v1/links/{id}/clicks/top";
/// Tags of the account's links.
pub const TAGS: &str = "/v1/tags";
/// Clicks of the account over time.
pub const CLICKS: &str = "/v1/clicks";
/// Most frequent values of the account's clicks.
pub const TOP_CLICKS: &str = "/v1/clicks/top";
/// Most clicked links of the account.
pub const TOP_LINKS: &str = "/v1/clicks/top-links";
/// Balance of the account.
pub const CREDITS: &str = "/v1/credits";
/// Entries of the account's ledger.
pub const CREDIT_ENTRIES: &str = "/v1/credits/entries";
/// Page that leads to the console and to the documentation.
pub const HOME: &str = "/";
/// Console for owners of links, without the slash that its relative addresses need.
pub const CONSOLE: &str = "/console";
/// Page of the console for owners of links.
pub const CONSOLE_PAGE: &str = "/console/";
/// File that the page at [`CONSOLE_PAGE`] loads.
pub const CONSOLE_FILE: &str = "/console/{file}";
/// Machine-readable description of the API.
pub const OPENAPI: &str = "/openapi.json";
/// Documentation of the API for people.
pub const DOCS: &str = "/docs";
/// Style sheet of the page at [`DOCS`].
pub const DOCS_STYLE: &str = "/docs/page.css";
/// Script of the page at [`DOCS`].
pub const DOCS_SCRIPT: &str = "/docs/start.js";
/// Style sheet of Swagger UI.
pub const SWAGGER_UI_STYLE: &str = "/docs/swagger-ui.css";
/// Script of Swagger UI, which renders the document.
pub const SWAGGER_UI_SCRIPT: &str = "/docs/swagger-ui-bundle.js";
/// Page about one code of the error catalogue.
pub const PROBLEM: &str = "/docs/problems/{code}";

const READ: &[Method] = &[Method::GET, Method::HEAD];

/// All paths, each with the methods that clients may use.
pub const TABLE: &[(&str, &[Method])] = &[
    // The service as a whole.
    ("*", &[]),
    (LINKS, &[Method::GET, Method::HEAD, Method::POST]),
    (LINK_BATCH, &[Method::POST]),
    (
        LINK,
        &[Method::GET, Method::HEAD, Method::PATCH, Method::DELETE],
    ),
    (LINK_HISTORY, READ),
    (LINK_QR_CODE, READ),
    (LINK_CLICKS, READ),
    (LINK_TOP_CLICKS, READ),
    (TAGS, READ),
    (CLICKS, READ),
    (TOP_CLICKS, READ),
    (TOP_LINKS, READ),
    (CREDITS, READ),
    (CREDIT_ENTRIES, READ),
    (HOME, READ),
    (CONSOLE, READ),
    (CONSOLE_PAGE, READ),
    (CONSOLE_FILE, READ),
    (OPENAPI, READ),
    (DOCS, READ),
    (DOCS_STYLE, READ),
    (DOCS_SCRIPT, READ),
    (SWAGGER_UI_STYLE, READ),
    (SWAGGER_UI_SCRIPT, READ),
    (PROBLEM, READ),
];

/// Returns the value of `Allow` for a path; `None` if the path is unknown.
pub fn allowed_methods(path: &str) -> Option<String> {
    let (_, methods) = entry(path)?;
    let names = methods.iter().map(Method::as_str).chain(["OPTIONS"]);
    Some(names.collect::<Vec<_>>().join(", "))
}

/// Returns the template that matches the path of a request.
pub fn template(path: &str) -> Option<&'static str> {
    let (template, _) = entry(path)?;
    Some(template)
}

/// Returns true for a path that only the API has. The short host has the page at [`HOME`] itself.
pub fn is_of_api(path: &str) -> bool {
    let is_known = template(path).is_some_and(|template| template != HOME && template != "*");
    is_known || path == "/v1" || path.starts_with("/v1/")
}

fn entry(path: &str) -> Option<&'static (&'static str, &'static [Method])> {
    TABLE.iter().find(|(pattern, _)| matches(pattern, path))
}

/// Returns true if the path matches: a `{name}` stands for one part that is not empty; every other part
/// must be equal, letter case included.
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
        assert_eq!(allowed_methods("*").as_deref(), Some("OPTIONS"));
        assert_eq!(
            allowed_methods("/v1/links/batch").as_deref(),
            Some("POST, OPTIONS")
        );
        assert_eq!(
            allowed_methods("/v1/links/lnk_1").as_deref(),
            Some("GET, HEAD, PATCH, DELETE, OPTIONS")
        );
        for path in [
            "/v1/credits",
            "/v1/credits/entries",
            "/v1/links/lnk_1/history",
            "/v1/links/lnk_1/qr",
            "/v1/links/lnk_1/clicks",
            "/v1/links/lnk_1/clicks/top",
            "/v1/tags",
            "/v1/clicks",
            "/v1/clicks/top-links",
            "/docs/problems/x",
            "/",
            "/console",
            "/console/",
            "/console/x.js",
        ] {
            assert_eq!(allowed_methods(path).as_deref(), Some("GET, HEAD, OPTIONS"));
        }
    }

    #[test]
    fn paths_of_the_api_are_known() {
        for path in [
            "/v1/links",
            "/v1/links/",
            "/v1/x",
            "/v1",
            "/docs",
            "/console/",
            "/openapi.json",
        ] {
            assert!(is_of_api(path), "{path}");
        }
        for path in [
            "/",
            "*",
            "",
            "/v1x",
            "/spring-sale",
            "/docs-of-spring",
            "/docs/x",
        ] {
            assert!(!is_of_api(path), "{path}");
        }
    }

    #[test]
    fn paths_are_exact() {
        for path in [
            "",
            "//",
            "/console/a/b",
            "/console//",
            "/Console/",
            "/v1",
            "/v1/links/",
            "/v1//links",
            "/V1/links",
            "/v1/links/a/b",
            "/v1/links/batch/",
            "/v1/links;x",
            "/v1/link%73",
            "/v1/./links",
            "/v1/x/../links",
            "/v1/credits/",
            "/v1/credits/entries/x",
            "/docs/",
            "/docs/problems",
            "/docs/problems/",
            "/docs/swagger-ui.js",
            "/openapi.JSON",
        ] {
            assert_eq!(allowed_methods(path), None, "{path}");
        }
    }
}
