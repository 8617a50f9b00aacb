//! Requests with several faults: the answer reports the fault that the order of checks names first, on every route.
//! `docs/api.md#order-of-checks` has the order.

use axum::{
    body::Body,
    http::{HeaderValue, Method, Request},
};
use linkledger_core::api_key::{AdminKey, AdminScope};
use linkledger_http::problem::Code;

use super::{
    fixture::{AdminApp, admin_key, post, request},
    routes::{Route, routes},
};

/// A fault of a request, in the order of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Host,
    ForeignHost,
    Path,
    Method,
    Credentials,
    Scope,
    Query,
    Accept,
    MediaType,
    Encoding,
    Size,
    IdempotencyKey,
    Json,
    UsedKey,
    Validation,
    Existence,
    Conflict,
}

const FAULTS: [Fault; 17] = [
    Fault::Host,
    Fault::ForeignHost,
    Fault::Path,
    Fault::Method,
    Fault::Credentials,
    Fault::Scope,
    Fault::Query,
    Fault::Accept,
    Fault::MediaType,
    Fault::Encoding,
    Fault::Size,
    Fault::IdempotencyKey,
    Fault::Json,
    Fault::UsedKey,
    Fault::Validation,
    Fault::Existence,
    Fault::Conflict,
];

impl Route {
    fn faults(&self) -> Vec<Fault> {
        let of_body = [
            Fault::MediaType,
            Fault::Encoding,
            Fault::Size,
            Fault::Json,
            Fault::Validation,
        ];
        let of_key = [Fault::IdempotencyKey, Fault::UsedKey];
        let is_possible = |fault: &Fault| {
            (self.takes_body() || !of_body.contains(fault))
                && (self.takes_key() || !of_key.contains(fault))
                && (self.unknown.is_some() || *fault != Fault::Existence)
                && (self.conflict.is_some() || *fault != Fault::Conflict)
        };
        FAULTS.into_iter().filter(is_possible).collect()
    }

    fn code(&self, fault: Fault) -> Code {
        match fault {
            Fault::Host => Code::InvalidHeader,
            Fault::ForeignHost => Code::HostNotServed,
            Fault::Path => Code::RouteNotFound,
            Fault::Method => Code::MethodNotAllowed,
            Fault::Credentials => Code::AuthenticationRequired,
            Fault::Scope => Code::InsufficientScope,
            Fault::Query => Code::InvalidParameter,
            Fault::Accept => Code::NotAcceptable,
            Fault::MediaType => Code::UnsupportedMediaType,
            Fault::Encoding => Code::UnsupportedContentEncoding,
            Fault::Size => Code::ContentTooLarge,
            Fault::IdempotencyKey => Code::IdempotencyKeyMissing,
            Fault::Json => Code::MalformedJson,
            Fault::UsedKey => Code::IdempotencyKeyReused,
            Fault::Validation => Code::ValidationFailed,
            Fault::Existence => self.unknown.as_ref().unwrap().1,
            Fault::Conflict => self.conflict.as_ref().unwrap().1,
        }
    }
}

/// Idempotency key that every POST that takes one has used once, for another body.
const USED: &str = "used";

/// A service, and its routes to what conflicts with some requests.
struct Fixture {
    admin: AdminApp,
    /// Keys that have all scopes but one.
    keys_without: Vec<(AdminScope, AdminKey)>,
    routes: Vec<Route>,
}

impl Fixture {
    async fn new() -> Self {
        let admin = AdminApp::start().await;
        let mut keys_without = Vec::new();
        for scope in AdminScope::ALL {
            let others: Vec<_> = AdminScope::ALL
                .into_iter()
                .filter(|it| *it != scope)
                .collect();
            keys_without.push((scope, admin_key(&admin.app, &others).await.1));
        }
        let routes = routes(&admin).await;
        let fixture = Self {
            admin,
            keys_without,
            routes,
        };
        fixture.use_keys().await;
        fixture
    }

    /// Sends a request with the key [`USED`] to each route that takes one. Afterwards, key, charge and grant of the
    /// conflicts are rotated, refunded and revoked.
    async fn use_keys(&self) {
        for route in self.routes.iter().filter(|route| route.takes_key()) {
            let mut body = route.body.clone();
            if body.get("overlap_seconds").is_some() {
                body["overlap_seconds"] = 0.into();
            } else if body.get("reason").is_some() {
                body["reason"] = "first".into();
            } else {
                body["name"] = "first".into();
            }
            let answer = self.admin.post(&route.path, USED, &body).await;
            assert!(answer.status.is_success(), "{}: {answer:?}", route.path);
        }
    }

    fn request(&self, route: &Route, faults: &[Fault]) -> Request<Body> {
        let has = |fault| faults.contains(&fault);
        let key = if has(Fault::Scope) {
            let mut keys = self.keys_without.iter();
            &keys.find(|(scope, _)| *scope == route.scope).unwrap().1
        } else {
            &self.admin.key
        };
        let path = match &route.unknown {
            // A key belongs to an account that exists.
            Some((path, _)) if has(Fault::Existence) && !has(Fault::UsedKey) => path,
            _ => &route.path,
        };
        let mut body = route.body.clone();
        if let (true, Some((members, _))) = (has(Fault::Conflict), &route.conflict) {
            for (name, value) in members.as_object().unwrap() {
                body[name] = value.clone();
            }
        }
        if has(Fault::Validation) {
            body["colour"] = "red".into();
        }
        let mut request = if has(Fault::UsedKey) {
            post(key, path, USED, &body)
        } else {
            request(key, route.method, path, &body)
        };
        for fault in faults {
            apply(*fault, &mut request);
        }
        request
    }

    async fn assert_reported(&self, route: &Route, faults: &[Fault]) {
        let answer = self.admin.send(self.request(route, faults)).await;
        let code = route.code(faults[0]);
        assert_eq!(
            (answer.status.as_u16(), answer.problem().as_str()),
            (code.status(), code.as_str()),
            "{} {}: {faults:?}",
            route.method,
            route.path
        );
    }
}

/// Adds the faults that are part of the request itself.
fn apply(fault: Fault, request: &mut Request<Body>) {
    let path_and_query = request.uri().to_string();
    let mut set = |name: &'static str, value: &'static str| {
        let value = HeaderValue::from_static(value);
        request.headers_mut().insert(name, value);
    };
    match fault {
        Fault::Accept => set("accept", "text/html"),
        Fault::MediaType => set("content-type", "text/plain"),
        Fault::Encoding => set("content-encoding", "gzip"),
        Fault::Size => set("content-length", "32769"),
        // Without a header there is no other host.
        Fault::ForeignHost => {
            if let Some(host) = request.headers_mut().get_mut("host") {
                *host = HeaderValue::from_static("evil.example");
            }
        }
        Fault::Host => drop(request.headers_mut().remove("host")),
        Fault::Credentials => drop(request.headers_mut().remove("authorization")),
        Fault::IdempotencyKey => drop(request.headers_mut().remove("idempotency-key")),
        Fault::Method => *request.method_mut() = Method::TRACE,
        Fault::Path => *request.uri_mut() = format!("/v1{path_and_query}").parse().unwrap(),
        Fault::Query => *request.uri_mut() = format!("{path_and_query}?x=1").parse().unwrap(),
        Fault::Json => *request.body_mut() = Body::from("{"),
        Fault::Scope | Fault::UsedKey | Fault::Validation | Fault::Existence | Fault::Conflict => {}
    }
}

#[tokio::test]
async fn admin_faults_are_reported_in_order_of_checks() {
    let fixture = Fixture::new().await;
    for route in &fixture.routes {
        let faults = route.faults();
        for first in 0..faults.len() {
            fixture.assert_reported(route, &faults[first..]).await;
        }
    }
}

#[tokio::test]
async fn single_admin_fault_is_reported() {
    let fixture = Fixture::new().await;
    for route in &fixture.routes {
        for fault in route.faults() {
            fixture.assert_reported(route, &[fault]).await;
        }
    }
}
