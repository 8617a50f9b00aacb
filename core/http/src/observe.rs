//! Observability of requests: span with its trace, duration, problem and access log.

use std::{
    sync::{PoisonError, RwLock},
    time::{Duration, Instant},
};

use axum::{
    http::{Method, StatusCode},
    response::Response,
};
use metrics::{Histogram, counter, histogram};
use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState},
};
use tracing::{Instrument as _, Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::{
    request::{RequestContext, RequestHead},
    route_table::{self, Route},
};
use crate::problem::Code;
use linkledger_service::metrics::{HTTP_PROBLEMS_TOTAL, HTTP_REQUEST_DURATION_SECONDS};

linkledger_core::named_enum! {
    /// Service name in metrics and logs.
    pub enum ServiceName {
        /// Writes of the API.
        CommandApi = "command-api",
        /// Reads of the API.
        QueryApi = "query-api",
        /// Redirects: the short host of query-api.
        ShortHost = "short-host",
        /// Admin API of all services.
        AdminApi = "admin-api",
    }
}

impl ServiceName {
    /// Returns the paths that the service answers.
    pub(super) const fn routes(self) -> &'static [Route] {
        match self {
            Self::CommandApi | Self::QueryApi | Self::ShortHost => route_table::TABLE,
            Self::AdminApi => route_table::ADMIN_TABLE,
        }
    }

    /// Returns the template of the route, one of a few for any path.
    fn route(self, path: &str) -> &'static str {
        match self {
            Self::ShortHost => "/{slug}",
            Self::CommandApi | Self::QueryApi | Self::AdminApi => {
                route_table::template(self.routes(), path).unwrap_or("unmatched")
            }
        }
    }
}

/// Labels of a duration except for the service. Few combinations exist, so all histograms are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Labels {
    status: StatusCode,
    route: &'static str,
    method: &'static str,
}

/// Records metrics, spans and access logs of one service.
pub(super) struct Observer {
    service: ServiceName,
    /// Histograms that were used before. A registry look-up by name and labels would slow a
    /// redirect noticeably; for a few labels, a linear search is faster than a hash.
    durations: RwLock<Vec<(Labels, Histogram)>>,
}

impl Observer {
    pub(super) fn new(service: ServiceName) -> Self {
        begin_counters(service);
        Self {
            service,
            durations: RwLock::default(),
        }
    }

    /// Runs the handler within a span, with a [`RequestContext`]. Records the outcome afterwards.
    /// Never records path and query: they may contain secrets.
    pub(super) async fn observe<R, F>(
        &self,
        request: R,
        handle: impl FnOnce(R, RequestContext) -> F,
    ) -> Response
    where
        R: RequestHead,
        F: Future<Output = Response>,
    {
        let begun_at = Instant::now();
        let service = self.service;
        let mut context = RequestContext::of(request.headers());
        let (method, route) = (known(request.method()), service.route(request.uri().path()));
        let span = tracing::info_span!(
            "request",
            otel.name = %format_args!("{method} {route}"),
            otel.kind = "server",
            service = service.name(),
            http.request_id = context.request_id(),
            http.request.method = method,
            http.route = route,
            trace_id = field::Empty,
        );
        if !span.is_disabled() {
            join_trace(&span, &mut context);
            span.record("trace_id", context.trace_id());
        }
        let response = handle(request, context).instrument(span.clone()).await;

        let duration = begun_at.elapsed();
        let status = response.status();
        let code = response
            .extensions()
            .get::<Code>()
            .map(|code| code.as_str());
        if let Some(code) = code {
            counter!(HTTP_PROBLEMS_TOTAL, "service" => service.name(), "code" => code).increment(1);
        }
        let labels = Labels {
            status,
            route,
            method,
        };
        self.record(labels, duration);
        if !span.is_disabled() {
            span.set_attribute("http.response.status_code", i64::from(status.as_u16()));
            if status.is_server_error() {
                span.set_status(Status::error(code.unwrap_or_default()));
            }
        }
        let duration_ms = duration.as_secs_f64() * 1_000.0;
        access_line(&span, service, status, code, duration_ms);
        response
    }

    fn record(&self, labels: Labels, duration: Duration) {
        let durations = self.durations.read();
        let durations = durations.unwrap_or_else(PoisonError::into_inner);
        if let Some((_, histogram)) = durations.iter().find(|(known, _)| *known == labels) {
            histogram.record(duration);
            return;
        }
        drop(durations);
        let histogram = histogram!(
            HTTP_REQUEST_DURATION_SECONDS,
            "service" => self.service.name(),
            "route" => labels.route,
            "method" => labels.method,
            "status" => labels.status.as_str().to_owned(),
        );
        histogram.record(duration);
        let durations = self.durations.write();
        let mut durations = durations.unwrap_or_else(PoisonError::into_inner);
        if durations.iter().all(|(known, _)| *known != labels) {
            durations.push((labels, histogram));
        }
    }
}

/// Starts the counters of 5xx problems at 0, so that the first one is visible as an increase.
fn begin_counters(service: ServiceName) {
    let failures = Code::ALL.iter().filter(|code| code.status() >= 500);
    for code in failures {
        counter!(HTTP_PROBLEMS_TOTAL, "service" => service.name(), "code" => code.as_str())
            .increment(0);
    }
}

/// Logs one line for each request. Redirects, which are far more frequent, are logged at a finer
/// level.
fn access_line(
    span: &Span,
    service: ServiceName,
    status: StatusCode,
    code: Option<&str>,
    duration_ms: f64,
) {
    let _entered = span.enter();
    let status = status.as_u16();
    match service {
        ServiceName::CommandApi | ServiceName::QueryApi | ServiceName::AdminApi => {
            tracing::info!(target: "linkledger::access", status, code, duration_ms, "answered");
        }
        ServiceName::ShortHost => {
            tracing::debug!(target: "linkledger::access", status, code, duration_ms, "answered");
        }
    }
}

/// Returns the method as a label. Methods are text of the caller, so all non-standard methods share
/// one label.
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

/// Propagates the trace (W3C Trace Context) from the caller to the events that the request appends: makes the span a
/// child of the caller's span, if the caller sent one, and the parent of everything that the request causes. Without a
/// collector there are no spans; then the caller's span is the direct parent.
fn join_trace(span: &Span, context: &mut RequestContext) {
    if let Some(parent) = caller_span(context) {
        // Fails if tracing is disabled.
        span.set_parent(Context::new().with_remote_span_context(parent))
            .ok();
    }
    let own = span.context().span().span_context().clone();
    if own.is_valid() {
        let (trace_id, span_id, flags) = (own.trace_id(), own.span_id(), own.trace_flags());
        context.continue_from(
            &trace_id.to_string(),
            &span_id.to_string(),
            &format!("{flags:02x}"),
        );
    }
}

fn caller_span(context: &RequestContext) -> Option<SpanContext> {
    if !context.continues_trace {
        return None;
    }
    let mut parts = context.traceparent().split('-').skip(1);
    let trace_id = TraceId::from_hex(parts.next()?).ok()?;
    let span_id = SpanId::from_hex(parts.next()?).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(parts.next()?, 16).ok()?);
    Some(SpanContext::new(
        trace_id,
        span_id,
        flags,
        true,
        TraceState::NONE,
    ))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;

    use super::*;

    #[test]
    fn span_parent_comes_from_the_caller_only() {
        let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let mut headers = HeaderMap::new();
        assert_eq!(caller_span(&RequestContext::of(&headers)), None);
        headers.insert("traceparent", given.parse().unwrap());
        let parent = caller_span(&RequestContext::of(&headers)).unwrap();
        assert_eq!(parent.trace_id().to_string(), given[3..35]);
        assert_eq!(parent.span_id().to_string(), given[36..52]);
        assert!(parent.is_remote() && parent.is_sampled());
    }
}
