//! The internal listener of a process: `/livez`, `/readyz`, `/metrics`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    routing::get,
};
use tokio_util::sync::CancellationToken;

use crate::metrics::recorder::Recorder;

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

/// Returns the routes of the internal listener: `/livez`, `/readyz`, `/metrics`.
pub fn router(readiness: Readiness, shutdown: CancellationToken, recorder: Recorder) -> Router {
    let ready = move || async move {
        if readiness.is_ready() && !shutdown.is_cancelled() {
            (StatusCode::OK, "ready\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
        }
    };
    // Includes the version of the format, without which some scrapers refuse the answer.
    let text = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Router::new()
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(ready))
        .route(
            "/metrics",
            get(move || async move { (text, recorder.render()) }),
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::Tasks;

    #[tokio::test]
    async fn readiness_ends_at_shutdown_liveness_stays() {
        let shutdown = CancellationToken::new();
        let readiness = Readiness::default();
        let mut tasks = Tasks::new(shutdown.clone());
        let recorder = Recorder::install(&mut tasks).unwrap();
        let routes = router(readiness.clone(), shutdown.clone(), recorder);
        let status = async |path: &str| {
            let request = axum::extract::Request::get(path);
            let request = request.body(axum::body::Body::empty()).unwrap();
            let response = tower::ServiceExt::oneshot(routes.clone(), request).await;
            response.unwrap().status().as_u16()
        };
        assert_eq!(status("/readyz").await, 503);
        readiness.set_ready();
        assert_eq!(status("/readyz").await, 200);
        shutdown.cancel();
        assert_eq!(status("/readyz").await, 503);
        assert_eq!(status("/livez").await, 200);
    }
}
