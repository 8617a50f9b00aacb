//! Reads with two faults: every route reports the fault that the order of checks names first.
//! `docs/api.md#order-of-checks` has the order.

use axum::http::Method;
use futures::future::join_all;
use linkledger_core::{
    api_key::{ApiKey, Scope},
    id::AccountId,
};
use linkledger_http::problem::Code;
use linkledger_testing as testing;

use crate::service::{Answer, ReadRoute, TestService, read_routes};

/// A fault of a request, in the order of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
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
    Token,
    Existence,
}

const FAULTS: [Fault; 12] = [
    Fault::Host,
    Fault::ForeignHost,
    Fault::Path,
    Fault::Method,
    Fault::Credentials,
    Fault::RateLimit,
    Fault::Scope,
    Fault::Account,
    Fault::Query,
    Fault::Accept,
    Fault::Token,
    Fault::Existence,
];

impl Fault {
    fn code(self, route: &str) -> Code {
        match self {
            Self::Host | Self::Token => Code::InvalidHeader,
            Self::ForeignHost => Code::HostNotServed,
            Self::Path => Code::RouteNotFound,
            Self::Method => Code::MethodNotAllowed,
            Self::Credentials => Code::AuthenticationRequired,
            Self::RateLimit => Code::RateLimited,
            Self::Scope => Code::InsufficientScope,
            Self::Account => Code::AccountSuspended,
            Self::Query => Code::InvalidParameter,
            Self::Accept => Code::NotAcceptable,
            Self::Existence if route.contains("{webhook_id}") => Code::WebhookNotFound,
            Self::Existence => Code::LinkNotFound,
        }
    }
}

struct Caller {
    key: ApiKey,
    key_without_scopes: ApiKey,
}

impl Caller {
    async fn new(service: &TestService, account_id: AccountId) -> Self {
        let pool = service.pool();
        Self {
            key: testing::api_key(pool, account_id, &Scope::ALL).await,
            key_without_scopes: testing::api_key(pool, account_id, &[]).await,
        }
    }
}

/// A service with an active and a suspended caller.
struct Fixture {
    service: TestService,
    /// Service on the same database with a rate limit of one request per second.
    limited: TestService,
    active: Caller,
    suspended: Caller,
    link_id: String,
}

/// Concurrent requests that exceed a limit of one request per second, even on a slow machine.
const REQUESTS_AT_ONCE: usize = 10;

impl Fixture {
    async fn new() -> Self {
        let service = TestService::start().await;
        let database = service.database.share();
        let limited = TestService::start_with(database, |config| config.rate_limit = 1).await;
        let suspended = testing::account(service.pool(), 0).await;
        sqlx::query("UPDATE event_store.accounts SET status = 'suspended'")
            .execute(service.pool())
            .await
            .unwrap();
        let caller = service.caller().await;
        let link = service.append_link(&caller, "spring").await;
        Self {
            active: Caller::new(&service, caller.account_id).await,
            suspended: Caller::new(&service, suspended).await,
            link_id: link.link.link_id.to_string(),
            service,
            limited,
        }
    }

    /// Returns the answer to a request with exactly these faults.
    async fn answer(&self, route: &str, faults: &[Fault]) -> Answer {
        if !faults.contains(&Fault::RateLimit) {
            return self.send(&self.service, route, faults).await;
        }
        let requests = (0..REQUESTS_AT_ONCE).map(|_| self.send(&self.limited, route, faults));
        let mut answers = join_all(requests).await;
        let limited = answers.iter().position(|answer| answer.status == 429);
        answers.swap_remove(limited.unwrap_or_default())
    }

    async fn send(&self, service: &TestService, route: &str, faults: &[Fault]) -> Answer {
        let has = |fault| faults.contains(&fault);
        let either = |fault, with: &'static str, without: &'static str| {
            if has(fault) { with } else { without }
        };
        let unknown = "lnk_00000000000000000000000000";
        let link_id = if has(Fault::Existence) {
            unknown
        } else {
            &self.link_id
        };
        let path = format!(
            "{}{}{}{}",
            either(Fault::ForeignHost, "http://evil.example", ""),
            either(Fault::Path, "/v2", ""),
            route
                .replace("{id}", link_id)
                .replace("{webhook_id}", "whe_00000000000000000000000000")
                .replace("{delivery_id}", "dlv_00000000000000000000000000"),
            either(Fault::Query, "?x=1", "")
        );
        let caller = if has(Fault::Account) {
            &self.suspended
        } else {
            &self.active
        };
        let key = if has(Fault::Scope) {
            &caller.key_without_scopes
        } else {
            &caller.key
        };
        let bearer = format!("Bearer {}", key.reveal());
        let mut headers = Vec::new();
        for (is_there, name, value) in [
            // A second `Host` header.
            (has(Fault::Host), "host", "h"),
            (!has(Fault::Credentials), "authorization", bearer.as_str()),
            (has(Fault::Accept), "accept", "text/html"),
            (has(Fault::Token), "consistency-token", "x"),
        ] {
            headers.extend(is_there.then_some((name, value)));
        }
        let method = if has(Fault::Method) {
            Method::PUT
        } else {
            Method::GET
        };
        service.call_api(method, &path, &headers).await
    }
}

/// Returns the faults that a request to the route can have.
fn faults_of(route: &ReadRoute) -> Vec<Fault> {
    let can_have = |fault: &Fault| {
        let is_served = *fault == Fault::Account && route.serves_suspended_accounts();
        // Only a single link or webhook can be missing.
        let is_there = *fault == Fault::Existence && !route.path.contains('{');
        !is_served && !is_there
    };
    FAULTS.into_iter().filter(can_have).collect()
}

#[tokio::test]
async fn first_of_two_faults_is_reported() {
    let fixture = Fixture::new().await;
    for read_route in read_routes() {
        let (route, faults) = (read_route.path, faults_of(&read_route));
        for (first, fault) in faults.iter().enumerate() {
            let code = fault.code(route);
            for other in &faults[first..] {
                let answer = fixture.answer(route, &[*fault, *other]).await;
                assert_eq!(
                    (answer.status.as_u16(), answer.json()["code"].as_str()),
                    (code.status(), Some(code.as_str())),
                    "{route}: {fault:?} and {other:?}"
                );
            }
            let answer = fixture.answer(route, &faults[first..]).await;
            answer.assert_problem(code.status(), code.as_str());
        }
    }
}
