//! The internal listener of a process: `/livez`, `/readyz`, `/metrics`.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Router,
    http::{
        HeaderMap, StatusCode,
        header::{CONTENT_TYPE, HOST},
        uri::Authority,
    },
    response::{IntoResponse as _, Response},
    routing::get,
};
use clap::Args;
use tokio_util::sync::CancellationToken;

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

/// Host names under which the internal listener and the admin listener are served.
#[derive(Debug, Clone, Default, Args)]
pub struct AdminAllowedHosts {
    /// Host name by which /metrics, the console and the admin API may be reached, besides IP addresses,
    /// localhost and names without a dot; can be repeated.
    #[arg(
        id = "admin_allowed_hosts",
        long = "admin-allowed-host",
        env = "ADMIN_ALLOWED_HOSTS",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub names: Vec<String>,
}

impl AdminAllowedHosts {
    /// Returns true if the host of a request is known.
    pub fn include_host_of(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        host.is_some_and(|host| self.include(host))
    }

    /// Returns true if the host of an authority, perhaps with a port, is known.
    ///
    /// A foreign page could resolve a name of its own to this address and read the answers (DNS
    /// rebinding). That does not work with an IP address, nor with a name without a dot, such as
    /// `localhost` or the name of a container: no public name is like that.
    pub fn include(&self, authority: &str) -> bool {
        let Ok(authority) = authority.parse::<Authority>() else {
            return false;
        };
        let name = authority.host();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok()
            || !name.contains(['.', ':'])
            || self
                .names
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Answer of `/metrics` under an unknown host.
const UNKNOWN_HOST: &str = "unknown host name; ask by IP address, or allow the name with --admin-allowed-host (ADMIN_ALLOWED_HOSTS)\n";

/// Returns the routes of the internal listener: `/livez`, `/readyz`, and `/metrics` under known hosts.
pub fn router(
    readiness: Readiness,
    shutdown: CancellationToken,
    recorder: MetricsRecorder,
    hosts: AdminAllowedHosts,
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
    use axum::http::HeaderValue;

    use super::*;
    use crate::lifecycle::Tasks;

    #[tokio::test]
    async fn probes_answer_every_host_metrics_only_known_hosts() {
        let shutdown = CancellationToken::new();
        let readiness = Readiness::default();
        let mut tasks = Tasks::new(shutdown.clone());
        let recorder = MetricsRecorder::install(&mut tasks).unwrap();
        let hosts = AdminAllowedHosts::default();
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

    #[test]
    fn only_addresses_short_names_and_given_names_are_known() {
        let names = vec!["ops.example.com".to_owned()];
        let hosts = AdminAllowedHosts { names };
        let is_known = |host: &'static str| {
            let host = HeaderValue::from_static(host);
            hosts.include_host_of(&HeaderMap::from_iter([(HOST, host)]))
        };
        for host in [
            "127.0.0.1:9102",
            "[::1]:9102",
            "10.2.3.4",
            "LocalHost:1",
            "projector:9102",
            "OPS.example.com:9102",
        ] {
            assert!(is_known(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example:9102",
            "localhost.evil.example",
            "sub.ops.example.com",
            "ops.example.com.",
            "localhost.",
            "user@evil.example",
        ] {
            assert!(!is_known(host), "{host}");
        }
        assert!(!hosts.include_host_of(&HeaderMap::new()));
    }
}
