//! Requests about webhooks with several faults: the answer reports the fault that the order of checks names first.
//! `docs/api.md#order-of-checks` has the order.

use axum::{
    body::Body,
    http::{HeaderValue, Method, Request},
};
use linkledger_core::api_key::{ApiKey, Scope};
use linkledger_http::problem::Code;
use linkledger_testing as testing;
use serde_json::{Value, json};

use super::{Fixture, UNKNOWN, UNKNOWN_DELIVERY, WEBHOOKS, creation, request};
use crate::support::{fresh_key, send};

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
}

const FAULTS: [Fault; 16] = [
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
];

impl Fault {
    fn code(self) -> Code {
        match self {
            Self::Host => Code::InvalidHeader,
            Self::ForeignHost => Code::HostNotServed,
            Self::Path => Code::RouteNotFound,
            Self::Method => Code::MethodNotAllowed,
            Self::Credentials => Code::AuthenticationRequired,
            Self::Scope => Code::InsufficientScope,
            Self::Query => Code::InvalidParameter,
            Self::Accept => Code::NotAcceptable,
            Self::MediaType => Code::UnsupportedMediaType,
            Self::Encoding => Code::UnsupportedContentEncoding,
            Self::Size => Code::ContentTooLarge,
            Self::IdempotencyKey => Code::IdempotencyKeyInvalid,
            Self::Json => Code::MalformedJson,
            Self::UsedKey => Code::IdempotencyKeyReused,
            Self::Validation => Code::ValidationFailed,
            Self::Existence => Code::WebhookNotFound,
        }
    }
}

/// A route with a valid request, on a webhook that exists.
struct Route {
    method: &'static str,
    operation: String,
    /// Body; null for a route that takes none.
    body: Value,
    takes_key: bool,
}

impl Route {
    fn faults(&self) -> Vec<Fault> {
        use Fault::{
            Encoding, Existence, IdempotencyKey, Json, MediaType, Size, UsedKey, Validation,
        };
        let of_body = [MediaType, Encoding, Size, Json, Validation];
        let of_key = [IdempotencyKey, UsedKey];
        let is_possible = |fault: &Fault| {
            (!self.body.is_null() || !of_body.contains(fault))
                && (self.takes_key || !of_key.contains(fault))
                && (!self.is_creation() || *fault != Existence)
        };
        FAULTS.into_iter().filter(is_possible).collect()
    }

    fn is_creation(&self) -> bool {
        self.method == "POST" && self.operation.is_empty()
    }
}

fn routes(delivery: &str) -> Vec<Route> {
    let route = |method, operation: &str, body| Route {
        method,
        operation: operation.to_owned(),
        body,
        takes_key: false,
    };
    let with_key = |route: Route| Route {
        takes_key: true,
        ..route
    };
    let from = json!({ "from": "2026-11-20T09:00:00Z" });
    vec![
        with_key(route("POST", "", creation())),
        route("PATCH", "", json!({})),
        route("DELETE", "", Value::Null),
        with_key(route("POST", "/rotate-secret", json!({}))),
        route("POST", "/test", Value::Null),
        route("POST", "/replay", from),
        route(
            "POST",
            &format!("/deliveries/{delivery}/retry"),
            Value::Null,
        ),
    ]
}

struct Scene {
    fixture: Fixture,
    webhook: String,
    key_without_scope: ApiKey,
    used_key: uuid::Uuid,
}

impl Scene {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let webhook = fixture.webhook().await;
        let used_key = fresh_key();
        let other = json!({ "url": "https://other.example.com/" });
        fixture.once(WEBHOOKS, used_key, &other).await;
        let rotate = format!("{webhook}/rotate-secret");
        let overlap = json!({ "overlap_hours": 7 });
        fixture.once(&rotate, used_key, &overlap).await;
        let pool = fixture.app.database.pool();
        let scopes = [Scope::WebhooksRead, Scope::LinksWrite];
        Self {
            key_without_scope: testing::api_key(pool, fixture.account_id, &scopes).await,
            fixture,
            webhook,
            used_key,
        }
    }

    fn request(&self, route: &Route, faults: &[Fault]) -> Request<Body> {
        let has = |fault| faults.contains(&fault);
        let key = if has(Fault::Scope) {
            &self.key_without_scope
        } else {
            &self.fixture.key
        };
        let path = if route.is_creation() {
            WEBHOOKS.to_owned()
        } else if has(Fault::Existence) {
            format!("{UNKNOWN}{}", route.operation)
        } else {
            format!("{}{}", self.webhook, route.operation)
        };
        let mut body = route.body.clone();
        if has(Fault::Validation) {
            body["colour"] = "red".into();
        }
        let mut request = request(key, route.method, &path, &body);
        if has(Fault::UsedKey) {
            let value = HeaderValue::from_str(&self.used_key.to_string()).unwrap();
            request.headers_mut().insert("idempotency-key", value);
        }
        for fault in faults {
            apply(*fault, &mut request);
        }
        request
    }

    async fn assert_reported(&self, route: &Route, faults: &[Fault]) {
        let router = &self.fixture.app.router;
        let answer = send(router, self.request(route, faults)).await;
        let code = faults[0].code();
        assert_eq!(
            (answer.status.as_u16(), answer.problem().as_str()),
            (code.status(), code.as_str()),
            "{} {}: {faults:?}",
            route.method,
            route.operation
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
        Fault::IdempotencyKey => set("idempotency-key", "x"),
        Fault::ForeignHost => {
            if let Some(host) = request.headers_mut().get_mut("host") {
                *host = HeaderValue::from_static("evil.example");
            }
        }
        Fault::Host => drop(request.headers_mut().remove("host")),
        Fault::Credentials => drop(request.headers_mut().remove("authorization")),
        Fault::Method => *request.method_mut() = Method::PUT,
        Fault::Path => *request.uri_mut() = format!("/v2{path_and_query}").parse().unwrap(),
        Fault::Query => *request.uri_mut() = format!("{path_and_query}?x=1").parse().unwrap(),
        Fault::Json => *request.body_mut() = Body::from("{"),
        Fault::Scope | Fault::UsedKey | Fault::Validation | Fault::Existence => {}
    }
}

#[tokio::test]
async fn webhook_faults_are_reported_in_order_of_checks() {
    let scene = Scene::new().await;
    for route in routes(UNKNOWN_DELIVERY) {
        let faults = route.faults();
        for first in 0..faults.len() {
            scene.assert_reported(&route, &faults[first..]).await;
            scene.assert_reported(&route, &[faults[first]]).await;
        }
    }
}
