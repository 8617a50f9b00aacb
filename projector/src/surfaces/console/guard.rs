//! What all answers of the console have, and who is answered at all.

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

use super::refusal::Refusal;

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// A page runs no script and has no style but ours, asks nobody but us, and is in no frame.
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
    // Of a moment, and of customers: no cache keeps it.
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        CROSS_ORIGIN_RESOURCE_POLICY,
        HeaderValue::from_static("same-origin"),
    ),
];

/// The names by which browsers may know the console.
#[derive(Clone)]
pub(super) struct Hosts(Arc<[String]>);

impl Hosts {
    pub(super) fn new(names: Vec<String>) -> Self {
        Self(names.into())
    }

    /// A page of somebody else's can have its own name resolve to this address, and would then be
    /// told everything. It can't do so with an address, nor with `localhost`.
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

/// Answers those who have asked us, and puts the headers on every answer.
pub(super) async fn guard(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let mut response = if hosts.include_host_of(request.headers()) {
        next.run(request).await
    } else {
        Refusal::unknown_host().into_response()
    };
    response.headers_mut().extend(HEADERS);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_names_that_were_given_are_ours_and_nothing_else() {
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
