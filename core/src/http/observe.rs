//! What is seen of a request from outside: its span, its duration, its problem, its access line.

use std::time::Instant;

use axum::{
    extract::{MatchedPath, Request, State},
    http::{Method, StatusCode},
    middleware::Next,
    response::Response,
};
use metrics::{counter, histogram};
use opentelemetry::trace::Status;
use tracing::{Instrument as _, Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::{request::RequestContext, trace_context};
use crate::{
    metrics::{HTTP_PROBLEMS_TOTAL, HTTP_REQUEST_DURATION_SECONDS},
    problem::Code,
};

/// Who answers, as metrics and logs name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// The API's writes.
    CommandApi,
    /// The API's reads.
    QueryApi,
    /// The short host of query-api.
    ShortHost,
}

impl Service {
    const fn name(self) -> &'static str {
        match self {
            Self::CommandApi => "command-api",
            Self::QueryApi => "query-api",
            Self::ShortHost => "short-host",
        }
    }

    /// The template of the route: one of few, whatever the path is.
    fn route(self, request: &Request) -> String {
        match self {
            Self::ShortHost => "/{slug}".to_owned(),
            Self::CommandApi | Self::QueryApi => {
                let matched = request.extensions().get::<MatchedPath>();
                matched.map_or("unmatched", MatchedPath::as_str).to_owned()
            }
        }
    }
}

/// Gives the request its [`RequestContext`] and its span, and tells afterwards what became of it.
/// Path and query are not told: they may hold what must not be logged.
pub(super) async fn observe(
    State(service): State<Service>,
    mut request: Request,
    next: Next,
) -> Response {
    let begun_at = Instant::now();
    let mut context = RequestContext::of(request.headers());
    let (method, route) = (known(request.method()), service.route(&request));
    let span = tracing::info_span!(
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        service = service.name(),
        http.request_id = context.request_id,
        http.request.method = method,
        http.route = route,
        trace_id = field::Empty,
    );
    trace_context::join(&span, &mut context);
    span.record("trace_id", context.trace_id());
    request.extensions_mut().insert(context);
    let response = next.run(request).instrument(span.clone()).await;

    let duration = begun_at.elapsed();
    let code = response.extensions().get::<Code>().map(|it| it.as_str());
    if let Some(code) = code {
        counter!(HTTP_PROBLEMS_TOTAL, "service" => service.name(), "code" => code).increment(1);
    }
    histogram!(
        HTTP_REQUEST_DURATION_SECONDS,
        "service" => service.name(),
        "route" => route,
        "method" => method,
        "status" => response.status().as_str().to_owned(),
    )
    .record(duration);
    span.set_attribute(
        "http.response.status_code",
        i64::from(response.status().as_u16()),
    );
    if response.status().is_server_error() {
        span.set_status(Status::error(code.unwrap_or_default()));
    }
    let duration_ms = duration.as_secs_f64() * 1_000.0;
    access_line(&span, service, response.status(), code, duration_ms);
    response
}

/// One line per request; of the short host, which has far more of them, at a finer level.
fn access_line(
    span: &Span,
    service: Service,
    status: StatusCode,
    code: Option<&str>,
    duration_ms: f64,
) {
    let _entered = span.enter();
    let status = status.as_u16();
    match service {
        Service::CommandApi | Service::QueryApi => {
            tracing::info!(target: "linkledger::access", status, code, duration_ms, "answered");
        }
        Service::ShortHost => {
            tracing::debug!(target: "linkledger::access", status, code, duration_ms, "answered");
        }
    }
}

/// Methods are the caller's text: only those of the standard are told apart.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
