//! Logs and traces of the process.

use std::{
    net::SocketAddr,
    process::Stdio,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, routing::post};
use http_body_util::{BodyExt as _, Empty};
use hyper::{Request, Response, body::Incoming};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use linkledger_core::api_key::Scope;
use linkledger_event_store::transaction::PoolTransaction;
use linkledger_service::lifecycle::{self, Tasks, listen};
use linkledger_testing as testing;
use linkledger_testing::{TestDatabase, eventually};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStderr},
};
use tokio_util::sync::CancellationToken;

use crate::process::{ANY_PORT, serve_command};

const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";
const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED_TRACE_ID: &str = "1bf7651916cd43dd8448eb211c80319d";
/// The caller has not recorded the trace.
const UNSAMPLED_TRACEPARENT: &str = "00-1bf7651916cd43dd8448eb211c80319d-b7ad6b7169203331-00";

/// The service as a running process.
struct Process {
    child: Child,
    stderr: Lines<BufReader<ChildStderr>>,
    /// Lines that the process has logged.
    lines: Vec<Value>,
}

impl Process {
    async fn start(database: &TestDatabase, settings: &[(&str, &str)]) -> Self {
        let mut child = serve_command(settings)
            .env("DATABASE_URL", database.url())
            .env("ALLOW_UNSAFE_POSTGRES", "true")
            .env("CLICKS", "off")
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut process = Self {
            child,
            stderr,
            lines: Vec::new(),
        };
        while process
            .lines
            .iter()
            .filter(|line| line["address"].is_string())
            .count()
            < 3
        {
            process
                .read_line()
                .await
                .expect("it tells where it listens");
        }
        process
    }

    async fn read_line(&mut self) -> Option<()> {
        let line = self.stderr.next_line().await.unwrap()?;
        let parsed = serde_json::from_str(&line);
        self.lines
            .push(parsed.unwrap_or_else(|_| panic!("not JSON: {line}")));
        Some(())
    }

    fn address(&self, listener: &str) -> SocketAddr {
        let message = format!("listening: {listener}");
        let line = self
            .lines
            .iter()
            .find(|line| line["message"] == message.as_str());
        line.unwrap()["address"].as_str().unwrap().parse().unwrap()
    }

    /// Sends SIGTERM, as an orchestrator does. Returns the exit code and all logged lines.
    async fn terminate(mut self) -> (Option<i32>, Vec<Value>) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
        while self.read_line().await.is_some() {}
        (self.child.wait().await.unwrap().code(), self.lines)
    }
}

async fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Response<Incoming> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let mut request = Request::get(format!("http://{address}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = client.request(request.body(Empty::new()).unwrap()).await;
    response.unwrap()
}

/// A collector that stores the received spans.
struct Collector {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Bytes>>>,
    _tasks: Tasks,
}

impl Collector {
    async fn start() -> Self {
        let bodies = Arc::<Mutex<Vec<Bytes>>>::default();
        let kept = Arc::clone(&bodies);
        let take = move |body: Bytes| async move { kept.lock().unwrap().push(body) };
        let listener = listen(ANY_PORT).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = Tasks::new(CancellationToken::new());
        let router = Router::new().route("/v1/traces", post(take));
        lifecycle::serve(&mut tasks, "collector", listener, router);
        Self {
            address,
            bodies,
            _tasks: tasks,
        }
    }

    fn has(&self, bytes: &[u8]) -> bool {
        let bodies = self.bodies.lock().unwrap();
        bodies
            .iter()
            .any(|body| body.windows(bytes.len()).any(|window| window == bytes))
    }
}

#[tokio::test]
async fn request_logs_have_id_trace_no_query() {
    let database = TestDatabase::create().await;
    let process = Process::start(&database, &[("RUST_LOG", "debug")]).await;
    let headers = [
        ("traceparent", TRACEPARENT),
        ("authorization", "Bearer llk_secret"),
    ];
    let answer = get(process.address("api"), "/v1/links?cursor=secret", &headers).await;
    let request_id = answer.headers()["x-request-id"]
        .to_str()
        .unwrap()
        .to_owned();
    let followed = get(process.address("short host"), "/secret?a=secret", &[]).await;
    assert_eq!(
        (answer.status().as_u16(), followed.status().as_u16()),
        (401, 404)
    );
    drop(followed.into_body().collect().await.unwrap());

    let (code, lines) = process.terminate().await;
    assert_eq!(code, Some(0));
    let of_request: Vec<&Value> = lines
        .iter()
        .filter(|line| line["span"]["http.request_id"] == request_id.as_str())
        .collect();
    let answered = of_request.last().unwrap();
    assert_eq!(answered["message"], "answered");
    assert_eq!(
        (&answered["status"], &answered["code"]),
        (&401.into(), &"api_key_invalid".into())
    );
    assert!(answered["duration_ms"].is_f64());
    let span = &answered["span"];
    assert_eq!(
        (&span["trace_id"], &span["service"]),
        (&TRACE_ID.into(), &"query-api".into())
    );
    assert_eq!(span["http.route"], "/v1/links");
    assert_eq!(span["http.request.method"], "GET");
    let followed = lines
        .iter()
        .find(|line| line["span"]["service"] == "short-host")
        .unwrap();
    assert_eq!(followed["span"]["http.route"], "/{slug}");
    let logged = Value::from(lines).to_string();
    assert!(!logged.contains("secret"), "{logged}");
}

#[tokio::test]
async fn slow_statement_is_logged_once_and_cut() {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 0).await;
    let key = testing::api_key(database.pool(), account_id, &Scope::ALL).await;
    let bearer = format!("Bearer {}", key.reveal());
    let headers = [("authorization", bearer.as_str())];
    let process = Process::start(&database, &[]).await;
    for _ in 0..2 {
        let mut holder = PoolTransaction::begin(database.pool()).await.unwrap();
        sqlx::raw_sql("LOCK TABLE read_model.links IN ACCESS EXCLUSIVE MODE")
            .execute(&mut *holder)
            .await
            .unwrap();
        let release = async {
            eventually("the list waits", async || {
                let waiting = testing::sessions_waiting_for_lock(database.pool()).await;
                (waiting > 0).then_some(())
            })
            .await;
            let held = sqlx::raw_sql("SELECT pg_sleep(1.2)").execute(&mut *holder);
            held.await.unwrap();
            holder.rollback().await.unwrap();
        };
        tokio::join!(get(process.address("api"), "/v1/links", &headers), release);
    }
    let (_, lines) = process.terminate().await;
    let slow: Vec<&Value> = lines
        .iter()
        .filter(|line| line["target"] == "sqlx::query")
        .collect();
    let of_list = slow.iter().filter_map(|line| {
        let statement = line["db.statement"].as_str().unwrap();
        statement
            .contains("p.account_id IS NOT NULL")
            .then_some((statement, line))
    });
    let of_list: Vec<_> = of_list.collect();
    let [(statement, line)] = of_list.as_slice() else {
        panic!("{slow:?}");
    };
    assert_eq!(statement.chars().count(), 201, "{statement}");
    assert!(!statement.contains("FROM read_model.links"), "{statement}");
    assert_eq!(line["message"], "slow statement");
    assert_eq!(line["level"], "WARN");
    assert!(line["elapsed"].as_str().unwrap().contains('s'), "{line}");
}

#[tokio::test]
async fn collector_gets_span_in_callers_trace_whatever_its_flag() {
    let database = TestDatabase::create().await;
    let collector = Collector::start().await;
    let endpoint = format!("http://{}", collector.address);
    let settings = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let process = Process::start(&database, &settings).await;
    for traceparent in [TRACEPARENT, UNSAMPLED_TRACEPARENT] {
        let headers = [("traceparent", traceparent)];
        get(process.address("api"), "/v1/links?x=secret", &headers).await;
    }
    // The process sends the remaining spans at its end.
    let (code, _) = process.terminate().await;
    assert_eq!(code, Some(0));
    let id = |hex: &str| u128::from_str_radix(hex, 16).unwrap().to_be_bytes();
    eventually("both spans arrive", async || {
        let ids = [TRACE_ID, UNSAMPLED_TRACE_ID];
        ids.iter()
            .all(|trace| collector.has(&id(trace)))
            .then_some(())
    })
    .await;
    // The parent is the caller's span.
    assert!(collector.has(&id("b7ad6b7169203331")[8..]));
    for part in [
        "GET /v1/links",
        "query-api",
        "req_",
        "http.response.status_code",
    ] {
        assert!(collector.has(part.as_bytes()), "{part}");
    }
    assert!(!collector.has(b"secret"));
}

#[tokio::test]
async fn missing_collector_fails_no_request() {
    let database = TestDatabase::create().await;
    let nobody = listen(ANY_PORT).await.unwrap().local_addr().unwrap();
    let endpoint = format!("http://{nobody}");
    let settings = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let process = Process::start(&database, &settings).await;
    for _ in 0..100 {
        assert_eq!(
            get(process.address("api"), "/v1/links", &[]).await.status(),
            401
        );
    }
    let (code, _) = process.terminate().await;
    assert_eq!(code, Some(0));
}
