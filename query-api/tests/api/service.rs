//! Runs a query-api on a separate database, with callers.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Method, Request, StatusCode},
};
use http_body_util::BodyExt as _;
use linkledger_core::{
    api_key::{ApiKey, Scope},
    clock::{Clock, SystemClock},
    commands::CreateResult,
    consistency::ConsistencyToken,
    id::AccountId,
};
use linkledger_http::{authentication::KEYS_CACHED_MAX, route_table};
use linkledger_query_api::{ClickSettings, QueryApiConfig, ShortHost, openapi, start};
use linkledger_service::{
    databases::DatabaseSettings,
    internal_listener::AdminAllowedHosts,
    lifecycle::{Serve, Tasks},
};
use linkledger_testing as testing;
use linkledger_testing::{FixedClock, TestDatabase, record};
use serde_json::Value;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

pub(crate) const BASE_URL: &str = "https://api.example.com";
pub(crate) const SHORT_BASE_URL: &str = "https://sho.rt";
/// Part of the service's timeout of one second in which a change of the read tables ends a wait for certain.
const WAIT_TESTED_MAX: Duration = Duration::from_millis(500);
const API_HOST: &str = "api.example.com";
const SHORT_HOST: &str = "sho.rt";
/// Address of the admin listener, which has no name in public.
const ADMIN_HOST: &str = "10.2.3.4:8086";

/// A running service, called without sockets.
pub(crate) struct TestService {
    pub(crate) database: TestDatabase,
    pub(crate) clock: Arc<FixedClock>,
    api: Router,
    admin: Router,
    short_host: ShortHost,
    /// Shutdown of the service at the end of the test.
    tasks: Tasks,
}

/// An account with an API key that has all scopes.
#[derive(Clone)]
pub(crate) struct TestCaller {
    pub(crate) account_id: AccountId,
    pub(crate) key: ApiKey,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Body as text; of an image, as far as the image is text.
    pub(crate) body: String,
    pub(crate) bytes: Vec<u8>,
}

/// Returns the settings of a test on the database.
pub(crate) fn config(database: &TestDatabase) -> QueryApiConfig {
    QueryApiConfig {
        databases: DatabaseSettings::one(database.url()),
        read_replica_urls: Vec::new(),
        allow_unsafe_postgres: true,
        base_url: BASE_URL.parse().unwrap(),
        short_base_url: SHORT_BASE_URL.parse().unwrap(),
        rate_limit: 0,
        allowed_hosts: Vec::new(),
        cors_allowed_origins: Vec::new(),
        redirect_status: "302".parse().unwrap(),
        redirect_cache_mib: 0,
        redirect_staleness_max_ms: 500,
        database_pool_size: 4,
        api_keys_cached_max: KEYS_CACHED_MAX,
        clicks: ClickSettings::off(),
        admin_allowed_hosts: AdminAllowedHosts::default(),
    }
}

impl TestService {
    pub(crate) async fn start() -> Self {
        Self::start_with(TestDatabase::create().await, |_| {}).await
    }

    pub(crate) async fn start_with(
        database: TestDatabase,
        change: impl FnOnce(&mut QueryApiConfig),
    ) -> Self {
        let clock = Arc::new(FixedClock::default());
        let of_service = Arc::clone(&clock) as Arc<dyn Clock>;
        Self::start_by(clock, of_service, database, change).await
    }

    /// Starts a service by the system's clock; `clock` of the test has no effect.
    pub(crate) async fn start_by_system_clock(
        database: TestDatabase,
        change: impl FnOnce(&mut QueryApiConfig),
    ) -> Self {
        let clock = Arc::new(FixedClock::default());
        Self::start_by(clock, Arc::new(SystemClock), database, change).await
    }

    async fn start_by(
        clock: Arc<FixedClock>,
        of_service: Arc<dyn Clock>,
        database: TestDatabase,
        change: impl FnOnce(&mut QueryApiConfig),
    ) -> Self {
        let mut config = config(&database);
        change(&mut config);
        let mut tasks = Tasks::new(CancellationToken::new());
        let service = start(config, of_service, &mut tasks).await.unwrap();
        assert!(service.readiness.is_ready());
        Self {
            database,
            clock,
            api: service.api,
            admin: service.admin,
            short_host: service.short_host,
            tasks,
        }
    }

    /// Starts another service on the same database, like a second process.
    pub(crate) async fn another(&self) -> Self {
        Self::start_with(self.database.share(), |_| {}).await
    }

    /// Starts the shutdown, as SIGTERM does; accepted requests are still answered.
    pub(crate) fn begin_shutdown(&self) {
        self.tasks.shutdown().cancel();
    }

    /// Shuts the service down and waits for its end.
    pub(crate) async fn shut_down(self) -> anyhow::Result<TestDatabase> {
        self.begin_shutdown();
        self.tasks.join().await?;
        Ok(self.database)
    }

    pub(crate) fn pool(&self) -> &PgPool {
        self.database.pool()
    }

    /// Ends the service and keeps the database.
    pub(crate) fn stop(self) -> TestDatabase {
        self.database
    }

    pub(crate) async fn caller(&self) -> TestCaller {
        let account_id = testing::account(self.pool(), 1_000).await;
        let key = testing::api_key(self.pool(), account_id, &Scope::ALL).await;
        TestCaller { account_id, key }
    }

    /// Appends a link to the event store, without rows in the read tables.
    pub(crate) async fn append_link(&self, caller: &TestCaller, slug: &str) -> CreateResult {
        let destination = format!("https://example.com/{slug}");
        let links = [(slug, destination.as_str())];
        let mut appended = testing::append_links(self.pool(), caller.account_id, &links).await;
        appended.remove(0)
    }

    /// Sends GET to the API with the caller's key.
    pub(crate) async fn get(&self, caller: &TestCaller, path: &str) -> Answer {
        self.get_with(caller, path, &[]).await
    }

    /// Sends GET to the API with the caller's key and additional headers.
    pub(crate) async fn get_with(
        &self,
        caller: &TestCaller,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let bearer = format!("Bearer {}", caller.key.reveal());
        let headers = [&[("authorization", bearer.as_str())], headers].concat();
        self.call_api(Method::GET, path, &headers).await
    }

    pub(crate) async fn call_api(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        call((&self.api, API_HOST), method, path, headers).await
    }

    /// Sends a request to the admin API.
    pub(crate) async fn call_admin(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        call((&self.admin, ADMIN_HOST), method, path, headers).await
    }

    pub(crate) async fn call_short_host(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        call((&self.short_host, SHORT_HOST), method, path, headers).await
    }

    /// Sends a request to the short host from an address.
    pub(crate) async fn visit(
        &self,
        method: Method,
        path: &str,
        peer: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let peer = SocketAddr::new(peer.parse().unwrap(), 4711);
        let site = self.short_host.for_peer(peer);
        call((&site, SHORT_HOST), method, path, headers).await
    }

    /// Sends GET to the short host.
    pub(crate) async fn follow(&self, path: &str) -> Answer {
        self.call_short_host(Method::GET, path, &[]).await
    }

    /// Returns the answer to a request that waits for the read tables, which `make_visible` changes meanwhile.
    ///
    /// On a host so slow that the change comes too late for the timeout of the request, the request is sent again.
    pub(crate) async fn answer_after<F: Future<Output = Answer>>(
        &self,
        request: impl Fn() -> F,
        make_visible: impl Future<Output = ()>,
    ) -> Answer {
        let sent_at = Instant::now();
        let answered = CancellationToken::new();
        let asking = async {
            let answer = request().await;
            answered.cancel();
            answer
        };
        let (answer, waited) = tokio::join!(asking, async {
            // On a slow host the request has ended before it is seen to wait.
            tokio::select! {
                () = self.until_a_request_waits() => {}
                () = answered.cancelled() => {}
            }
            make_visible.await;
            sent_at.elapsed()
        });
        if answer.status == 503 && waited > WAIT_TESTED_MAX {
            return request().await;
        }
        answer
    }

    /// Waits until a request waits for the read tables: only then the service polls the checkpoints.
    pub(crate) async fn until_a_request_waits(&self) {
        testing::eventually("somebody waits", async || {
            let looks: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database()
                   AND query LIKE '%c.generation = p.active_generation%'
                   -- Not this statement itself, which any session may have run last.
                   AND query NOT LIKE '%pg_stat_activity%'",
            )
            .fetch_one(self.pool())
            .await
            .unwrap();
            (looks > 0).then_some(())
        })
        .await;
    }
}

/// Route of the API that reads.
pub(crate) struct ReadRoute {
    pub(crate) path: &'static str,
    /// Scopes that the OpenAPI document names.
    pub(crate) scopes: Vec<Scope>,
}

impl ReadRoute {
    /// Returns true if a suspended account may call the route: its balance and its ledger.
    pub(crate) fn serves_suspended_accounts(&self) -> bool {
        self.scopes == [Scope::CreditsRead]
    }
}

/// Returns all routes of the API that read.
pub(crate) fn read_routes() -> Vec<ReadRoute> {
    let document = serde_json::to_value(openapi()).unwrap();
    let reads = route_table::TABLE
        .iter()
        .filter(|(path, methods)| path.starts_with("/v1/") && methods.contains(&Method::GET));
    let routes = reads.map(|(path, _)| {
        let scopes = &document["paths"][path]["get"]["security"][0]["api_key"];
        let scopes = scopes.as_array().unwrap().iter();
        let scopes = scopes.map(|scope| Scope::of_name(scope.as_str().unwrap()).unwrap());
        ReadRoute {
            path,
            scopes: scopes.collect(),
        }
    });
    routes.collect()
}

/// Returns the paths of all routes that read, for the link with the given id; without those of a single webhook.
pub(crate) fn read_paths(link_id: &str) -> Vec<String> {
    let routes = read_routes().into_iter();
    let paths = routes.map(|route| route.path.replace("{id}", link_id));
    paths.filter(|path| !path.contains('{')).collect()
}

/// Returns the paths of the routes that read without the id of a link or a webhook.
pub(crate) fn paths_without_id() -> Vec<&'static str> {
    let paths = read_routes().into_iter().map(|route| route.path);
    paths.filter(|path| !path.contains('{')).collect()
}

async fn call(
    (site, host): (&impl Serve, &str),
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", host);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).unwrap();
    let (head, body) = site.answer(request).await.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    record::answer(&head.headers, &body);
    Answer {
        status: head.status,
        headers: head.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
        bytes: body.into(),
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Returns the body without the request id.
    pub(crate) fn body_without_request_id(&self) -> String {
        self.body.replace(self.header("x-request-id").unwrap(), "")
    }

    /// Panics unless the answer is the given problem with the given status.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(self.json()["code"], code, "{}", self.body);
        assert_eq!(
            self.json()["type"],
            format!("{BASE_URL}/docs/problems/{code}")
        );
    }

    /// Panics unless the answer is `read_model_behind` with `Retry-After`.
    #[track_caller]
    pub(crate) fn assert_read_model_behind(&self) {
        self.assert_problem(503, "read_model_behind");
        assert_eq!(self.header("retry-after"), Some("1"));
    }
}

/// Returns the consistency token of the answer that created the link.
pub(crate) fn token_of(link: &CreateResult, epoch: i32) -> String {
    ConsistencyToken {
        epoch,
        account_id: link.link.account_id,
        position: link.position,
    }
    .encode()
}
