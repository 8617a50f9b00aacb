//! Content negotiation of the short host: JSON or HTML.

use axum::http::HeaderMap;
use linkledger_core::http::request::MediaTypePreference;

/// Returns true if `Accept` gives JSON a higher weight than HTML, or the same weight while JSON is
/// named and HTML only matches a wildcard.
pub(super) fn prefers_json(headers: &HeaderMap) -> bool {
    let of = |media_type| MediaTypePreference::of(headers, media_type);
    of("application/json").max(of("application/problem+json")) > of("text/html")
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header::ACCEPT};

    use super::*;

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
