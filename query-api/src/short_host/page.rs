//! HTML pages of the short host in place of problem details, unless `Accept` prefers JSON.

use std::sync::LazyLock;

use axum::{
    body::Body,
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY},
    },
    response::Response,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use linkledger_http::request::MediaTypePreference;
use sha2::{Digest as _, Sha256};

const X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");
const STYLE: &str = include_str!("page.css");

/// Content security policy: a page loads nothing and has only its inline style.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::from_str(&policy).expect("base64 is ASCII")
});

/// Replaces every problem by a page, unless the request prefers JSON. A header of every answer forbids
/// search engines to index the short host. `api` is the address of the API if its path was looked for here.
pub(super) fn render_problem_as_page(
    response: &mut Response,
    request: &HeaderMap,
    api: Option<&str>,
) {
    let status = response.status();
    let headers = response.headers_mut();
    headers.insert(X_ROBOTS_TAG, HeaderValue::from_static("noindex"));
    if !status.is_client_error() && !status.is_server_error() {
        return;
    }
    headers.insert(VARY, HeaderValue::from_static("accept"));
    if prefers_json(request) {
        return;
    }
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.remove(CONTENT_LENGTH);
    *response.body_mut() = Body::from(page(status, api));
}

/// Returns true if `Accept` gives JSON a higher weight than HTML, or the same weight while JSON is
/// named and HTML only matches a wildcard.
fn prefers_json(headers: &HeaderMap) -> bool {
    let of = |media_type| MediaTypePreference::of(headers, media_type);
    of("application/json").max(of("application/problem+json")) > of("text/html")
}

/// Returns a page that explains the status and gives advice. The page contains no text of the
/// request, and addresses in settings have no sign that must be escaped but `&`.
fn page(status: StatusCode, api: Option<&str>) -> String {
    let (title, advice) = match status {
        StatusCode::NOT_FOUND => (
            "There is no such link",
            "Check the address: perhaps a character is missing or wrong.",
        ),
        StatusCode::MISDIRECTED_REQUEST => (
            "There are no links at this address",
            "Check the name before the first slash of the address.",
        ),
        StatusCode::GONE => (
            "This link is no longer available",
            "It was deleted or switched off, or has expired. Ask whoever gave it to you for another one.",
        ),
        StatusCode::METHOD_NOT_ALLOWED => (
            "A link can only be followed",
            "Open the address in a browser.",
        ),
        StatusCode::SERVICE_UNAVAILABLE => (
            "The link can't be followed just now",
            "Try again in a few seconds.",
        ),
        status if status.is_server_error() => (
            "Something went wrong",
            "The fault is ours. Try again later.",
        ),
        StatusCode::URI_TOO_LONG => (
            "The address is too long",
            "Check the address: a short link ends after a few characters.",
        ),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => (
            "The request is too large",
            "Delete the cookies of this site and open the address again.",
        ),
        _ => (
            "The request could not be read",
            "Check the address and open it again. If it is right, the program or proxy that sent \
             the request has made a mistake.",
        ),
    };
    let api = api.map(|api| format!("\n<p>The API is at {}</p>", api.replace('&', "&amp;")));
    let api = api.unwrap_or_default();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <main>\n<h1>{title}</h1>\n<p>{advice}</p>{api}\n</main>\n"
    )
}

#[cfg(test)]
mod tests {
    use axum::http::header::ACCEPT;

    use super::*;

    #[test]
    fn policy_contains_hash_of_inline_style() {
        let page = page(StatusCode::GONE, None);
        let (_, rest) = page.split_once("<style>").unwrap();
        let (style, _) = rest.split_once("</style>").unwrap();
        let hash = STANDARD.encode(Sha256::digest(style));
        let policy = POLICY.to_str().unwrap();
        assert!(policy.contains(&format!("style-src 'sha256-{hash}';")));
    }

    #[test]
    fn page_explains_status_and_gives_advice() {
        let page = page(StatusCode::NOT_FOUND, Some("https://a.example/x&y"));
        assert!(page.starts_with("<!doctype html>"), "{page}");
        assert!(page.contains("<h1>There is no such link</h1>"), "{page}");
        assert!(page.contains("<p>Check the address"), "{page}");
        assert!(
            page.contains("<p>The API is at https://a.example/x&amp;y</p>"),
            "{page}"
        );
    }

    fn prefers_json_with(accept: &str) -> bool {
        let value = HeaderValue::from_str(accept).unwrap();
        prefers_json(&HeaderMap::from_iter([(ACCEPT, value)]))
    }

    #[test]
    fn browsers_get_html() {
        assert!(!prefers_json(&HeaderMap::new()));
        for accept in [
            "",
            "*/*",
            "text/html",
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
            "text/html, application/json",
            "application/json;q=0.9, text/html",
            "application/json;q=0.5, */*;q=0.8",
            "application/json;q=0",
            "application/json;q=2",
            "image/png",
        ] {
            assert!(!prefers_json_with(accept), "{accept}");
        }
    }

    #[test]
    fn callers_that_prefer_json_get_json() {
        for accept in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/problem+json",
            "application/json, text/plain, */*",
            "application/*",
            "text/html;q=0.5, application/json;q=0.501",
            "text/html;q=0, */*",
            "*/*;q=0.1, application/problem+json;q=0.2",
        ] {
            assert!(prefers_json_with(accept), "{accept}");
        }
    }
}
