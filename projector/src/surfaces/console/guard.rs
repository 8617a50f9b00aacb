//! Headers of every answer, and check of the host name.

use axum::{
    extract::{Request, State},
    http::{
        HeaderName, HeaderValue,
        header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS},
    },
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use linkledger_core::internal_listener::InternalHosts;

use super::error_page::ErrorPage;

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// Headers of every answer: no foreign script, style, request or frame.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; \
             connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
    ),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    // No cache keeps the pages: they are momentary and name customers.
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        CROSS_ORIGIN_RESOURCE_POLICY,
        HeaderValue::from_static("same-origin"),
    ),
];

/// Refuses an unknown host, and adds the headers to every answer.
pub(super) async fn guard(
    State(hosts): State<InternalHosts>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = if hosts.include_host_of(request.headers()) {
        next.run(request).await
    } else {
        ErrorPage::unknown_host().into_response()
    };
    response.headers_mut().extend(HEADERS);
    response
}
