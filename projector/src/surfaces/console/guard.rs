//! Headers of every answer, and check of the host name.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        },
        uri::Authority,
    },
    middleware::Next,
    response::{IntoResponse as _, Response},
};

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

/// Names by which browsers may reach the console.
#[derive(Clone)]
pub(super) struct Hosts(Arc<[String]>);

impl Hosts {
    pub(super) fn new(names: Vec<String>) -> Self {
        Self(names.into())
    }

    /// Returns true if the host is known. A foreign page could resolve its own name to this address
    /// and read the answers (DNS rebinding); that does not work with an IP address or `localhost`.
    fn include_host_of(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let Some(authority) = host.and_then(|host| host.parse::<Authority>().ok()) else {
            return false;
        };
        let name = authority.host();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        let mut names = self.0.iter().map(String::as_str).chain(["localhost"]);
        address.parse::<IpAddr>().is_ok() || names.any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Refuses an unknown host, and adds the headers to every answer.
pub(super) async fn guard(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let mut response = if hosts.include_host_of(request.headers()) {
        next.run(request).await
    } else {
        ErrorPage::unknown_host().into_response()
    };
    response.headers_mut().extend(HEADERS);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_localhost_and_given_names_are_known() {
        let hosts = Hosts::new(vec!["ops.example.com".to_owned()]);
        let is_ours = |host: &'static str| {
            hosts.include_host_of(&HeaderMap::from_iter([(
                HOST,
                HeaderValue::from_static(host),
            )]))
        };
        for host in [
            "127.0.0.1:9102",
            "[::1]:9102",
            "10.2.3.4",
            "LocalHost:1",
            "OPS.example.com:9102",
        ] {
            assert!(is_ours(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example:9102",
            "localhost.evil.example",
            "sub.ops.example.com",
            "ops.example.com.",
            "2130706433",
            "user@evil.example",
        ] {
            assert!(!is_ours(host), "{host}");
        }
        assert!(!hosts.include_host_of(&HeaderMap::new()));
    }
}
