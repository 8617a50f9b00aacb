//! Outermost layer: assigns each request an id and renders each problem.

use std::{panic::AssertUnwindSafe, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{
        HeaderName, HeaderValue, Method, StatusCode, Uri,
        header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
    },
    response::{IntoResponse, Response},
};
use futures::FutureExt as _;
use tower::Service as _;

use super::{
    observe::{Observer, ServiceName},
    request::{RequestContext, RequestHead, check_framing},
    route_table::{self, Route},
    served_hosts::ServedHosts,
};
use crate::problem::Problem;
use linkledger_core::link::{Slug, printed_slug};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Browsers must not take an answer for another type than its own.
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// Settings of one listener for its checks and for the rendering of problems.
#[derive(Debug, Clone)]
pub struct AnswerSettings {
    /// Base address of the API, where the pages of the problems are served.
    pub base_url: Arc<str>,
    /// Base address of short links.
    pub short_base_url: Arc<str>,
    /// Hosts for which the listener answers.
    pub hosts: ServedHosts,
    /// Service that answers.
    pub service: ServiceName,
}

impl IntoResponse for Problem {
    /// Attaches the problem to the response. [`Answers`], which knows the request, renders it.
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).expect("a status of the catalogue");
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Wraps a service's routes in [`Answers`].
pub fn with_problem_details(routes: Router, settings: AnswerSettings) -> Router {
    let (service, short_base_url) = (settings.service, Arc::clone(&settings.short_base_url));
    let no_such_route = move |method: Method, uri: Uri| {
        let unknown = || match service {
            ServiceName::AdminApi => Problem::route_not_found(),
            ServiceName::CommandApi | ServiceName::QueryApi | ServiceName::ShortHost => {
                unknown_path(uri.path(), &short_base_url)
            }
        };
        let answer = not_in_table(service.routes(), &method, uri.path(), unknown);
        std::future::ready(answer)
    };
    let routes = routes
        .fallback(no_such_route.clone())
        .method_not_allowed_fallback(no_such_route);
    let answers = Arc::new(Answers::new(settings));
    // One service around all routes: a router's layer would cost each request a copy, a box and a
    // future.
    Router::new().fallback(async move |request: Request| {
        let handle = async |mut request: Request, context| {
            request.extensions_mut().insert(context);
            let Ok(response) = routes.clone().call(request).await;
            response
        };
        answers.answer(request, handle).await
    })
}

/// Assigns every request an id, and renders every 4xx and 5xx answer as a problem, including panics
/// and the framework's own rejections.
pub struct Answers {
    settings: AnswerSettings,
    observer: Observer,
}

impl Answers {
    /// Returns the outermost layer of one service.
    pub fn new(settings: AnswerSettings) -> Self {
        Self {
            observer: Observer::new(settings.service),
            settings,
        }
    }

    /// Answers a request with `handle`, and renders the answer. The request may be given to
    /// `handle` or lent.
    pub async fn answer<R, F>(
        &self,
        request: R,
        handle: impl FnOnce(R, RequestContext) -> F,
    ) -> Response
    where
        R: RequestHead,
        F: Future<Output = Response>,
    {
        let form = async |request: R, context: RequestContext| {
            let response = match self.check_head(&request) {
                Ok(()) => {
                    let handled = AssertUnwindSafe(async { handle(request, context).await });
                    handled.catch_unwind().await.unwrap_or_else(|_| {
                        tracing::error!("a handler panicked");
                        Problem::internal().into_response()
                    })
                }
                Err(problem) => problem.into_response(),
            };
            self.rendered(response, context.request_id())
        };
        self.observer.observe(request, form).await
    }

    fn check_head(&self, request: &impl RequestHead) -> Result<(), Problem> {
        let (headers, uri) = (request.headers(), request.uri());
        check_framing(headers, uri)?;
        self.settings.hosts.check(headers, uri)
    }

    fn rendered(&self, mut response: Response, request_id: &str) -> Response {
        let problem = response.extensions_mut().remove::<Problem>();
        let is_error = response.status().is_client_error() || response.status().is_server_error();
        if let Some(problem) = problem.or_else(|| is_error.then(|| foreign(&response))) {
            render(&mut response, &problem, &self.settings.base_url, request_id);
        }
        let request_id = HeaderValue::from_str(request_id).expect("letters and digits");
        let headers = response.headers_mut();
        headers.insert(X_REQUEST_ID, request_id);
        headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        response
    }
}

/// Answers OPTIONS and all requests without a route to a public listener; `unknown` is the problem of a path without
/// any method.
pub fn no_such_route(method: &Method, path: &str, unknown: impl FnOnce() -> Problem) -> Response {
    not_in_table(route_table::TABLE, method, path, unknown)
}

fn not_in_table(
    table: &'static [Route],
    method: &Method,
    path: &str,
    unknown: impl FnOnce() -> Problem,
) -> Response {
    match route_table::allowed_methods(table, path) {
        Some(allow) if method == Method::OPTIONS => {
            (StatusCode::NO_CONTENT, [(ALLOW, allow)]).into_response()
        }
        Some(allow) if !allow.split(", ").any(|allowed| allowed == method.as_str()) => {
            Problem::method_not_allowed(&allow).into_response()
        }
        // A route of the other service counts as unknown: the request bypassed the ingress.
        Some(_) | None => unknown().into_response(),
    }
}

/// Returns the problem of an unknown path of the API, which may be that of a short link.
fn unknown_path(path: &str, short_base_url: &str) -> Problem {
    let slug = path.strip_prefix('/').and_then(printed_slug::parse);
    // No short link has a reserved name.
    if slug.is_some_and(|slug| Slug::parse(slug.as_str()).is_ok()) {
        Problem::path_of_short_host(short_base_url)
    } else {
        Problem::route_not_found()
    }
}

/// Logs an error status that has no problem, and returns the problem to send instead.
fn foreign(response: &Response) -> Problem {
    tracing::error!(
        status = response.status().as_u16(),
        "a handler answered with an error status, but without problem details; the client gets a 500 instead"
    );
    Problem::internal()
}

fn render(response: &mut Response, problem: &Problem, base_url: &str, request_id: &str) {
    *response.status_mut() =
        StatusCode::from_u16(problem.code.status()).expect("a status of the catalogue");
    let body = problem.to_body(base_url, request_id).to_string();
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.remove(CONTENT_LENGTH);
    // Replaces the framework's `Allow`: the route table knows the methods of both services.
    headers.remove(ALLOW);
    for (name, value) in &problem.headers {
        let value = HeaderValue::from_str(value).expect("a problem's headers are ASCII");
        headers.insert(HeaderName::from_static(name), value);
    }
    *response.body_mut() = Body::from(body);
    response.extensions_mut().insert(problem.code);
}

#[cfg(test)]
mod tests {
    use axum::{body::to_bytes, http::response::Parts, routing::get};
    use serde_json::Value;
    use tower::ServiceExt as _;

    use super::*;
    use linkledger_core::config::BaseUrl;

    fn settings() -> AnswerSettings {
        let base_url: BaseUrl = "https://api.example.com".parse().unwrap();
        AnswerSettings {
            base_url: base_url.as_str().into(),
            short_base_url: "https://sho.rt".into(),
            hosts: ServedHosts::new(&base_url, &[]),
            service: ServiceName::QueryApi,
        }
    }

    async fn answer_to(path: &str) -> (Parts, Value) {
        let routes = Router::new()
            .route(
                "/panics",
                get(async || -> &'static str { panic!("a secret") }),
            )
            .route(
                "/foreign",
                get(async || (StatusCode::BAD_GATEWAY, "a secret")),
            );
        let request = Request::get(path).header("host", "api.example.com");
        let request = request.body(Body::empty()).unwrap();
        let response = with_problem_details(routes, settings()).oneshot(request);
        let (head, body) = response.await.unwrap().into_parts();
        let body = to_bytes(body, 10_000).await.unwrap();
        assert!(!body.windows(6).any(|part| part == b"secret"));
        (head, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn panics_become_problems_without_details() {
        for path in ["/panics", "/foreign"] {
            let (head, body) = answer_to(path).await;
            assert_eq!(head.status, 500, "{path}");
            let content_type = &head.headers[CONTENT_TYPE];
            assert_eq!(content_type, "application/problem+json", "{path}");
            assert_eq!(head.headers[X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
            assert_eq!(body["code"], "internal_error", "{path}");
        }
    }

    #[tokio::test]
    async fn path_of_short_link_names_the_short_host() {
        for (path, names_it) in [
            ("/spring-sale", true),
            ("/Spring-sale.", true),
            ("/admin", false),
            ("/spring/sale", false),
            ("/v2/links", false),
        ] {
            let (head, body) = answer_to(path).await;
            assert_eq!(
                (head.status.as_u16(), &body["code"]),
                (404, &"route_not_found".into())
            );
            let detail = body["detail"].as_str().unwrap();
            assert_eq!(
                detail.contains("https://sho.rt"),
                names_it,
                "{path}: {detail}"
            );
        }
    }
}
