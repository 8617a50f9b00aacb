//! The outermost layer: gives each request its id, and each problem its form.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{
        HeaderName, HeaderValue, Method, StatusCode,
        header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE},
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use tower_http::catch_panic::CatchPanicLayer;

use super::{
    observe::{Service, observe},
    request::{RequestContext, check_framing},
    route_table,
};
use crate::problem::{Code, Problem};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What the form of a problem depends on.
#[derive(Debug, Clone)]
pub struct AnswerSettings {
    /// Start of the addresses of the problems' pages: the API's base address.
    pub base_url: Arc<str>,
    /// Who answers.
    pub service: Service,
}

impl IntoResponse for Problem {
    /// Leaves the rendering to [`with_problem_details`], which knows the request.
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).expect("a status of the catalogue");
        let mut response = status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Wraps a service's routes: every request gets an id, every 4xx and 5xx the form of a problem,
/// panics and the framework's own rejections included.
pub fn with_problem_details(routes: Router, settings: AnswerSettings) -> Router {
    let panic = |_: Box<dyn std::any::Any + Send>| {
        tracing::error!("a handler has panicked");
        Problem::internal().into_response()
    };
    let service = settings.service;
    let routes = routes
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_route)
        .layer(CatchPanicLayer::custom(panic))
        .layer(middleware::from_fn_with_state(settings, answer))
        .layer(middleware::from_fn_with_state(service, observe));
    // The framework puts its own `Allow` on from outside of a router's layers: only around another
    // router can it be taken off.
    Router::new()
        .fallback_service(routes)
        .layer(middleware::map_response(without_foreign_allow))
}

/// `Allow` comes from the route table, which knows both services; of problems, only
/// `method_not_allowed` has it.
async fn without_foreign_allow(mut response: Response) -> Response {
    let code = response.extensions().get::<Code>();
    if code.is_some_and(|code| *code != Code::MethodNotAllowed) {
        response.headers_mut().remove(ALLOW);
    }
    response
}

/// OPTIONS, and whatever no route has taken.
async fn no_such_route(request: Request) -> Response {
    match route_table::allowed_methods(request.uri().path()) {
        Some(allow) if request.method() == Method::OPTIONS => {
            (StatusCode::NO_CONTENT, [(ALLOW, allow)]).into_response()
        }
        Some(allow)
            if !allow
                .split(", ")
                .any(|method| method == request.method().as_str()) =>
        {
            Problem::new(Code::MethodNotAllowed, format!("Use one of: {allow}."))
                .with_header("allow", allow)
                .into_response()
        }
        // A route of the other service, reached past the ingress, is not here either.
        Some(_) | None => Problem::new(
            Code::RouteNotFound,
            "Check the path; it is matched exactly.",
        )
        .into_response(),
    }
}

async fn answer(State(settings): State<AnswerSettings>, request: Request, next: Next) -> Response {
    let context = request.extensions().get::<RequestContext>().cloned();
    let context = context.expect("`observe` stands before");
    let mut response = match check_framing(request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let problem = response.extensions_mut().remove::<Problem>();
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    if let Some(problem) = problem.or_else(|| is_error.then(|| foreign(&response))) {
        render(
            &mut response,
            &problem,
            &settings.base_url,
            &context.request_id,
        );
    }
    let request_id = HeaderValue::from_str(&context.request_id).expect("letters and digits");
    response.headers_mut().insert(X_REQUEST_ID, request_id);
    response
}

/// An error that no code of ours has made.
fn foreign(response: &Response) -> Problem {
    tracing::error!(
        status = response.status().as_u16(),
        "an error without a problem"
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
    headers.remove(axum::http::header::CONTENT_LENGTH);
    for (name, value) in &problem.headers {
        let value = HeaderValue::from_str(value).expect("a problem's headers are ASCII");
        headers.insert(HeaderName::from_static(name), value);
    }
    *response.body_mut() = Body::from(body);
    response.extensions_mut().insert(problem.code);
}

#[cfg(test)]
mod tests {
    use axum::{body::to_bytes, routing::get};
    use serde_json::Value;
    use tower::ServiceExt as _;

    use super::*;

    async fn answer_to(path: &str) -> (StatusCode, HeaderValue, Value) {
        let routes = Router::new()
            .route(
                "/panics",
                get(async || -> &'static str { panic!("a secret") }),
            )
            .route(
                "/foreign",
                get(async || (StatusCode::BAD_GATEWAY, "a secret")),
            );
        let settings = AnswerSettings {
            base_url: "https://api.example.com".into(),
            service: Service::QueryApi,
        };
        let request = Request::get(path).header("host", "h").body(Body::empty());
        let response = with_problem_details(routes, settings).oneshot(request.unwrap());
        let (head, body) = response.await.unwrap().into_parts();
        let body = to_bytes(body, 10_000).await.unwrap();
        assert!(!body.windows(6).any(|part| part == b"secret"));
        let body = serde_json::from_slice(&body).unwrap();
        (head.status, head.headers[CONTENT_TYPE].clone(), body)
    }

    #[tokio::test]
    async fn panics_and_errors_without_a_code_are_problems_that_tell_nothing() {
        for path in ["/panics", "/foreign"] {
            let (status, content_type, body) = answer_to(path).await;
            assert_eq!(status, 500, "{path}");
            assert_eq!(content_type, "application/problem+json", "{path}");
            assert_eq!(body["code"], "internal_error", "{path}");
        }
    }
}
