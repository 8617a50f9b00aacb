//! CORS (Fetch standard): calls from pages of other origins, refused unless a setting lists the
//! origin (`docs/api.md#hosts`). There are no cookies, so credentials are never allowed.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{
        HeaderValue, Method,
        header::{
            ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
            ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
            ACCESS_CONTROL_REQUEST_METHOD, ALLOW, ORIGIN, VARY,
        },
    },
    middleware::{self, Next},
    response::Response,
};

use linkledger_core::config::Origin;

/// Request headers that a page may set.
const ALLOWED_HEADERS: &str = "authorization, consistency-token, content-type, idempotency-key, \
                               if-match, if-none-match, traceparent";
/// Response headers that a page may read.
const EXPOSED_HEADERS: &str = "consistency-token, etag, idempotent-replayed, link, location, \
                               ratelimit, ratelimit-policy, retry-after, x-request-id";
/// Time for which a browser may cache a preflight answer, in seconds.
const MAX_AGE: &str = "600";

/// Allows pages of these origins to call the routes. Without origins, the routes stay unchanged.
pub fn allow(routes: Router, origins: &[Origin]) -> Router {
    if origins.is_empty() {
        return routes;
    }
    let origins: Arc<[Origin]> = origins.into();
    routes.layer(middleware::from_fn_with_state(origins, answer))
}

async fn answer(State(origins): State<Arc<[Origin]>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(ORIGIN).cloned();
    let is_preflight = request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
    let is_allowed = |given: &HeaderValue| origins.iter().any(|origin| origin.as_str() == given);
    let Some(origin) = given.filter(is_allowed) else {
        return response;
    };
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    if !is_preflight {
        let exposed = HeaderValue::from_static(EXPOSED_HEADERS);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    } else if let Some(methods) = headers.get(ALLOW).cloned() {
        let allowed = HeaderValue::from_static(ALLOWED_HEADERS);
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::StatusCode};
    use tower::ServiceExt as _;

    use super::*;
    use crate::{
        answer::{AnswerSettings, with_problem_details},
        observe::ServiceName,
        served_hosts::ServedHosts,
    };
    use linkledger_core::config::BaseUrl;

    async fn answer_to(origins: &[&str], method: &str, headers: &[(&str, &str)]) -> Response {
        let base_url: BaseUrl = "https://api.example.com".parse().unwrap();
        let settings = AnswerSettings {
            base_url: base_url.as_str().into(),
            short_base_url: "https://sho.rt".into(),
            hosts: ServedHosts::new(&base_url, &[]),
            service: ServiceName::CommandApi,
        };
        let origins: Vec<Origin> = origins.iter().map(|it| it.parse().unwrap()).collect();
        let routes = allow(with_problem_details(Router::new(), settings), &origins);
        let request = headers.iter().fold(
            Request::builder()
                .method(method)
                .uri("/v1/links")
                .header("host", "api.example.com"),
            |request, (name, value)| request.header(*name, *value),
        );
        let request = request.body(Body::empty()).unwrap();
        routes.oneshot(request).await.unwrap()
    }

    fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
        response.headers().get(name)?.to_str().ok()
    }

    const PAGE: (&str, &str) = ("origin", "https://app.example.com");
    const PREFLIGHT: (&str, &str) = ("access-control-request-method", "POST");

    #[tokio::test]
    async fn a_listed_origin_may_call_and_read() {
        let origins = ["https://other.example.com", PAGE.1];
        let asked = answer_to(&origins, "OPTIONS", &[PAGE, PREFLIGHT]).await;
        assert_eq!(asked.status(), StatusCode::NO_CONTENT);
        assert_eq!(header(&asked, "access-control-allow-origin"), Some(PAGE.1));
        let methods = header(&asked, "access-control-allow-methods");
        assert_eq!(methods, Some("GET, HEAD, POST, OPTIONS"));
        assert_eq!(methods, header(&asked, "allow"));
        let allowed = header(&asked, "access-control-allow-headers").unwrap();
        assert!(allowed.contains("idempotency-key"), "{allowed}");

        // Also on problems: their codes must be readable.
        let called = answer_to(&origins, "PUT", &[PAGE]).await;
        assert_eq!(called.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(header(&called, "access-control-allow-origin"), Some(PAGE.1));
        let exposed = header(&called, "access-control-expose-headers").unwrap();
        assert!(exposed.contains("x-request-id"), "{exposed}");
    }

    #[tokio::test]
    async fn unlisted_origin_gets_no_cors_headers() {
        let evil = ("origin", "https://app.example.com.evil.com");
        for (origins, headers) in [
            (&[][..], &[PAGE, PREFLIGHT][..]),
            (&[PAGE.1], &[evil, PREFLIGHT]),
            (&[PAGE.1], &[("origin", "null"), PREFLIGHT]),
            (&[PAGE.1], &[PREFLIGHT]),
        ] {
            let response = answer_to(origins, "OPTIONS", headers).await;
            assert_eq!(response.status(), StatusCode::NO_CONTENT);
            assert_eq!(header(&response, "access-control-allow-origin"), None);
            assert_eq!(header(&response, "access-control-allow-methods"), None);
            let varies = (!origins.is_empty()).then_some("origin");
            assert_eq!(header(&response, "vary"), varies);
        }
    }
}
