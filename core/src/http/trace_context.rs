//! Trace propagation (W3C Trace Context): from the caller, through the span of the request, to the
//! events that the request appends.

use opentelemetry::{
    Context,
    trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState},
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::request::RequestContext;

/// Makes the span a child of the caller's span, if the caller sent one, and the parent of
/// everything that the request causes. Without a collector there are no spans; then the caller's
/// span is the direct parent.
pub(super) fn join(span: &Span, context: &mut RequestContext) {
    if let Some(parent) = caller(context) {
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

fn caller(context: &RequestContext) -> Option<SpanContext> {
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
        assert_eq!(caller(&RequestContext::of(&headers)), None);
        headers.insert("traceparent", given.parse().unwrap());
        let parent = caller(&RequestContext::of(&headers)).unwrap();
        assert_eq!(parent.trace_id().to_string(), given[3..35]);
        assert_eq!(parent.span_id().to_string(), given[36..52]);
        assert!(parent.is_remote() && parent.is_sampled());
    }
}
