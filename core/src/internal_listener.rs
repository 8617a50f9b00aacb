//! The internal listener of a process: `/livez`, `/readyz`, `/metrics`.

mod hosts;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
    routing::get,
};
use tokio_util::sync::CancellationToken;

pub use self::hosts::InternalHosts;
use crate::metrics_recorder::MetricsRecorder;

/// Readiness of a service for requests.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Marks the service as ready.
    pub fn set_ready(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns true if the service is ready.
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Answer of `/metrics` under an unknown host.
const UNKNOWN_HOST: &str = "unknown host name; ask by IP address, or allow the name with --internal-host (INTERNAL_HOSTS)\n";

/// Returns the routes of the internal listener: `/livez`, `/readyz`, and `/metrics` under known hosts.
pub fn router(
    readiness: Readiness,
    shutdown: CancellationToken,
    recorder: MetricsRecorder,
    hosts: InternalHosts,
) -> Router {
    let ready = move || async move {
        if readiness.is_ready() && !shutdown.is_cancelled() {
            (StatusCode::OK, "ready\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
        }
    };
    let metrics = move |headers: HeaderMap| async move {
        if hosts.include_host_of(&headers) {
            text_of_metrics(&recorder)
        } else {
            (StatusCode::MISDIRECTED_REQUEST, UNKNOWN_HOST).into_response()
        }
    };
    Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
}

fn text_of_metrics(recorder: &MetricsRecorder) -> Response {
    // Includes the version of the format, without which some scrapers refuse the answer.
    let text = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (text, recorder.render()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::Tasks;

    #[tokio::test]
    async fn probes_answer_every_host_metrics_only_known_hosts() {
        let shutdown = CancellationToken::new();
        let readiness = Readiness::default();
        let mut tasks = Tasks::new(shutdown.clone());
        let recorder = MetricsRecorder::install(&mut tasks).unwrap();
        let hosts = InternalHosts::default();
        let routes = router(readiness.clone(), shutdown.clone(), recorder, hosts);
        let status_under = async |host: &str, path: &str| {
            let request = axum::extract::Request::get(path).header("host", host);
            let request = request.body(axum::body::Body::empty()).unwrap();
            let response = tower::ServiceExt::oneshot(routes.clone(), request).await;
            response.unwrap().status().as_u16()
        };
        let status = async |path| status_under("10.0.0.1:9101", path).await;
        assert_eq!(status("/metrics").await, 200);
        assert_eq!(status_under("evil.example", "/metrics").await, 421);
        assert_eq!(status_under("evil.example", "/livez").await, 200);
        assert_eq!(status("/readyz").await, 503);
        readiness.set_ready();
        assert_eq!(status("/readyz").await, 200);
        shutdown.cancel();
        assert_eq!(status("/readyz").await, 503);
        assert_eq!(status("/livez").await, 200);
    }
}
