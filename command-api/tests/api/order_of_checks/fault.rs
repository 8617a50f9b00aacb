//! Faults of a request, in the order of checks, and requests with such faults.

use axum::{
    body::Body,
    http::{HeaderValue, Method, Request},
};
use futures::future::join_all;
use linkledger_core::{
    api_key::{ApiKey, Scope},
    id::{AccountId, LinkId},
};
use linkledger_http::problem::Code;
use linkledger_testing as testing;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    cli::json as run_json,
    create_links::batch,
    support::{Answer, TestApp, change, create, delete, fresh_key, link, send},
};

/// A fault of a request, in the order of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    Host,
    ForeignHost,
    Path,
    Method,
    Credentials,
    RateLimit,
    Scope,
    Account,
    Query,
    Accept,
    MediaType,
    Encoding,
    Size,
    IdempotencyKey,
    IfMatch,
    Json,
    UsedKey,
    Validation,
    Existence,
    Precondition,
    DisabledByOperator,
    Slug,
    ExternalId,
    Credits,
}

impl Fault {
    const ALL: [Self; 24] = [
        Self::Host,
        Self::ForeignHost,
        Self::Path,
        Self::Method,
        Self::Credentials,
        Self::RateLimit,
        Self::Scope,
        Self::Account,
        Self::Query,
        Self::Accept,
        Self::MediaType,
        Self::Encoding,
        Self::Size,
        Self::IdempotencyKey,
        Self::IfMatch,
        Self::Json,
        Self::UsedKey,
        Self::Validation,
        Self::Existence,
        Self::Precondition,
        Self::DisabledByOperator,
        Self::Slug,
        Self::ExternalId,
        Self::Credits,
    ];

    pub(super) fn code(self) -> Code {
        match self {
            Self::Host | Self::IfMatch => Code::InvalidHeader,
            Self::ForeignHost => Code::HostNotServed,
            Self::Path => Code::RouteNotFound,
            Self::Method => Code::MethodNotAllowed,
            Self::Credentials => Code::AuthenticationRequired,
            Self::RateLimit => Code::RateLimited,
            Self::Scope => Code::InsufficientScope,
            Self::Account => Code::AccountSuspended,
            Self::Query => Code::InvalidParameter,
            Self::Accept => Code::NotAcceptable,
            Self::MediaType => Code::UnsupportedMediaType,
            Self::Encoding => Code::UnsupportedContentEncoding,
            Self::Size => Code::ContentTooLarge,
            Self::IdempotencyKey => Code::IdempotencyKeyMissing,
            Self::Json => Code::MalformedJson,
            Self::UsedKey => Code::IdempotencyKeyReused,
            Self::Validation => Code::ValidationFailed,
            Self::Existence => Code::LinkNotFound,
            Self::Precondition => Code::EtagMismatch,
            Self::DisabledByOperator => Code::LinkDisabledByOperator,
            Self::Slug => Code::SlugTaken,
            Self::ExternalId => Code::ExternalIdTaken,
            Self::Credits => Code::InsufficientCredits,
        }
    }
}

/// The operations of command-api.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Batch,
    Change,
    Delete,
}

impl Operation {
    /// Returns the faults that a request of the operation can have, in the order of checks.
    pub(super) fn faults(self) -> Vec<Fault> {
        use Fault::*;
        let impossible: &[Fault] = match self {
            Self::Create => &[IfMatch, Existence, Precondition, DisabledByOperator],
            // The header must be missing, and an item without a key is a fault of the validation.
            Self::Batch => &[
                IdempotencyKey,
                IfMatch,
                Existence,
                Precondition,
                DisabledByOperator,
            ],
            Self::Change => &[IdempotencyKey, UsedKey, Slug, Credits],
            Self::Delete => &[
                MediaType,
                Encoding,
                Size,
                IdempotencyKey,
                Json,
                UsedKey,
                Validation,
                DisabledByOperator,
                Slug,
                ExternalId,
                Credits,
            ],
        };
        let faults = Fault::ALL.into_iter();
        faults.filter(|fault| !impossible.contains(fault)).collect()
    }
}

/// An account that has used one idempotency key for one link, and one external id for another link.
struct Caller {
    account_id: AccountId,
    link_id: String,
    /// Link that an operator has disabled.
    disabled_link_id: String,
    /// Key with all scopes, issued last, so that no process has cached the key.
    writer: ApiKey,
    reader: ApiKey,
}

/// A service with an active and a suspended caller.
pub(super) struct Fixture {
    pub(super) app: TestApp,
    /// Service on the same database with a rate limit of one request per second.
    limited: TestApp,
    rich: Caller,
    poor: Caller,
    suspended: Caller,
    used_key: Uuid,
}

/// Concurrent requests that exceed a limit of one request per second, even on a slow machine.
const REQUESTS_AT_ONCE: usize = 10;
/// Slug, and external id, of a link of a caller. Creates in the tests use other ones.
const TAKEN: &str = "taken";

impl Fixture {
    pub(super) async fn new() -> Self {
        let app = TestApp::start().await;
        let url = app.database.url().to_owned();
        let limited = TestApp::start_on(app.database.share(), &url, 1).await;
        let used_key = fresh_key();
        let suspended = Caller::new(&app, 1, used_key, TAKEN).await;
        sqlx::query("UPDATE event_store.accounts SET status = 'suspended' WHERE account_id = $1")
            .bind(suspended.account_id.uuid())
            .execute(app.database.pool())
            .await
            .unwrap();
        Self {
            rich: Caller::new(&app, 1_000, used_key, "rich").await,
            poor: Caller::new(&app, 1, used_key, "poor").await,
            suspended,
            app,
            limited,
            used_key,
        }
    }

    /// Returns the answer to a request with exactly these faults.
    pub(super) async fn answer(&self, operation: Operation, faults: &[Fault]) -> Answer {
        let send_to = async |router| send(router, self.request(operation, faults)).await;
        if !faults.contains(&Fault::RateLimit) {
            return send_to(&self.app.router).await;
        }
        let mut answers =
            join_all((0..REQUESTS_AT_ONCE).map(|_| send_to(&self.limited.router))).await;
        let limited = answers.iter().position(|answer| answer.status == 429);
        answers.swap_remove(limited.unwrap_or_default())
    }

    fn request(&self, operation: Operation, faults: &[Fault]) -> Request<Body> {
        let has = |fault| faults.contains(&fault);
        let caller = if has(Fault::Account) {
            &self.suspended
        } else if has(Fault::Credits) {
            &self.poor
        } else {
            &self.rich
        };
        let key = if has(Fault::Scope) {
            &caller.reader
        } else {
            &caller.writer
        };
        let unknown = LinkId::from_uuid(fresh_key()).to_string();
        // On a slow machine the first requests pass the rate limit; they must not delete the link that
        // the other requests use.
        let link_id = if has(Fault::Existence) || has(Fault::RateLimit) {
            &unknown
        } else if has(Fault::DisabledByOperator) {
            &caller.disabled_link_id
        } else {
            &caller.link_id
        };
        let key_of_request = if has(Fault::UsedKey) {
            self.used_key
        } else {
            fresh_key()
        };
        let mut request = match operation {
            Operation::Create => create(key, key_of_request, &body(faults)),
            Operation::Batch => batch(key, "atomic", &[(key_of_request, body(faults))]),
            Operation::Change => change(key, link_id, &body(faults)),
            Operation::Delete => delete(key, link_id),
        };
        for fault in faults {
            apply(*fault, &mut request);
        }
        request
    }
}

impl Caller {
    /// Creates the account, its link under the idempotency key, and its other links.
    async fn new(app: &TestApp, links: i64, used_key: Uuid, slug: &str) -> Self {
        let pool = app.database.pool();
        let (account_id, key) = app.account(links + 2).await;
        let created = async |idempotency_key, body: Value| {
            let created = send(&app.router, create(&key, idempotency_key, &body)).await;
            assert_eq!(created.status, 201, "{created:?}");
            created.json()["id"].as_str().unwrap().to_owned()
        };
        let with_external_id =
            json!({ "destination_url": "https://example.com/", "external_id": TAKEN });
        created(fresh_key(), with_external_id).await;
        let disabled_link_id = app.link(&key).await;
        let reason = ["--reason", "test"];
        let disable = ["link", "disable", "--link", &disabled_link_id];
        run_json(app.database.url(), &[&disable[..], &reason[..]].concat());
        Self {
            account_id,
            link_id: created(used_key, link(slug)).await,
            disabled_link_id,
            writer: testing::api_key(pool, account_id, &[Scope::LinksWrite]).await,
            reader: testing::api_key(pool, account_id, &[Scope::LinksRead]).await,
        }
    }
}

fn body(faults: &[Fault]) -> Value {
    let mut body = json!({});
    if faults.contains(&Fault::Validation) {
        body["destination_url"] = "ftp://example.com/".into();
    } else {
        body["destination_url"] = "https://example.com/other".into();
    }
    if faults.contains(&Fault::Slug) {
        body["slug"] = TAKEN.into();
    }
    if faults.contains(&Fault::ExternalId) {
        body["external_id"] = TAKEN.into();
    }
    if faults.contains(&Fault::DisabledByOperator) {
        body["disabled"] = false.into();
    }
    body
}

/// Adds the faults that are part of the request itself.
fn apply(fault: Fault, request: &mut Request<Body>) {
    let (path, query) = {
        let uri = request.uri();
        let query = uri.query().map(|query| format!("?{query}"));
        (uri.path().to_owned(), query.unwrap_or_default())
    };
    let mut set = |name: &'static str, value: &'static str| {
        let value = HeaderValue::from_static(value);
        request.headers_mut().insert(name, value);
    };
    match fault {
        Fault::Accept => set("accept", "text/html"),
        Fault::MediaType => set("content-type", "text/plain"),
        Fault::Encoding => set("content-encoding", "gzip"),
        Fault::Size => set("content-length", "262145"),
        // Two headers, if the request has both faults.
        Fault::Precondition => add_if_match(request, "\"9\""),
        Fault::IfMatch => add_if_match(request, "1"),
        // Without a header there is no other host.
        Fault::ForeignHost => {
            if let Some(host) = request.headers_mut().get_mut("host") {
                *host = HeaderValue::from_static("evil.example");
            }
        }
        Fault::Host => drop(request.headers_mut().remove("host")),
        Fault::Credentials => drop(request.headers_mut().remove("authorization")),
        Fault::IdempotencyKey => drop(request.headers_mut().remove("idempotency-key")),
        Fault::Method => *request.method_mut() = Method::PUT,
        Fault::Path => *request.uri_mut() = format!("/v2{path}{query}").parse().unwrap(),
        Fault::Query => *request.uri_mut() = format!("{path}?x=1").parse().unwrap(),
        Fault::Json => *request.body_mut() = Body::from("{"),
        Fault::RateLimit
        | Fault::Scope
        | Fault::Account
        | Fault::UsedKey
        | Fault::Validation
        | Fault::Existence
        | Fault::DisabledByOperator
        | Fault::Slug
        | Fault::ExternalId
        | Fault::Credits => {}
    }
}

fn add_if_match(request: &mut Request<Body>, value: &'static str) {
    let value = HeaderValue::from_static(value);
    request.headers_mut().append("if-match", value);
}
