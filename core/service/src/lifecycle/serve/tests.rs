//! Tests a listener with misbehaving clients. Each test sets one limit and disables the others, so
//! that only this limit can close the connection.

use std::{future::Future, net::SocketAddr, sync::Arc};

use axum::{
    body::{Body, Bytes},
    routing::{get, post},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::Notify,
    time::{Instant, timeout},
};

use super::*;
use crate::lifecycle::listen;

const NEVER: Duration = Duration::from_hours(1);
const SOON: Duration = Duration::from_millis(40);
/// Longest wait of a test.
const DEADLINE: Duration = Duration::from_mins(2);

const UNLIMITED: ConnectionLimits = ConnectionLimits {
    head_time_max: NEVER,
    body_time_max: NEVER,
    idle_time_max: NEVER,
    write_time_max: NEVER,
    idle_drain_time_max: Duration::ZERO,
    drain_time_max: Duration::from_secs(10),
    connections_max: 100,
};

struct TestServer {
    address: SocketAddr,
    tasks: Tasks,
    shutdown: CancellationToken,
    /// Allows `/held` to answer.
    release: Arc<Notify>,
    /// Notified when `/held` was called.
    held: Arc<Notify>,
}

impl TestServer {
    async fn start(limits: ConnectionLimits) -> Self {
        let shutdown = CancellationToken::new();
        let mut tasks = Tasks::new(shutdown.clone());
        let listener = listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (release, held) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let wait = {
            let (release, held) = (Arc::clone(&release), Arc::clone(&held));
            move || async move {
                held.notify_one();
                release.notified().await;
                "released"
            }
        };
        let router = Router::new()
            .route("/", get(|| async { "ok" }))
            .route("/echo", post(|body: Bytes| async move { body }))
            .route("/early", post(|| async { "early" }))
            .route("/held", get(wait))
            .route("/large", get(|| async { Body::from(vec![b'x'; 64 << 20]) }))
            .route(
                "/panic",
                get(async || -> &'static str { panic!("on purpose") }),
            );
        serve_within(limits, &mut tasks, "test", listener, router);
        Self {
            address,
            tasks,
            shutdown,
            release,
            held,
        }
    }

    /// Returns a client that has sent this text.
    async fn client(&self, sent: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        stream
    }

    async fn end(self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        in_time(self.tasks.join()).await
    }
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future)
        .await
        .expect("the future ends before the deadline")
}

/// Reads until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match in_time(stream.read_to_end(&mut bytes)).await {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
    String::from_utf8(bytes).unwrap()
}

/// Reads one answer with this body.
async fn answer(stream: &mut TcpStream, body: &str) -> String {
    let mut bytes = Vec::new();
    let end = format!("\r\n\r\n{body}");
    while !bytes.ends_with(end.as_bytes()) {
        let length = in_time(stream.read_buf(&mut bytes)).await.unwrap();
        assert_ne!(length, 0, "{}", String::from_utf8_lossy(&bytes));
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn connection_serves_several_requests() {
    let server = TestServer::start(UNLIMITED).await;
    let mut client = server.client("GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    answer(&mut client, "ok").await;
    let second = "POST /echo HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nagain";
    client.write_all(second.as_bytes()).await.unwrap();
    answer(&mut client, "again").await;
    server.end().await.unwrap();
}

#[tokio::test]
async fn endless_head_closes_without_answer() {
    let limits = ConnectionLimits {
        head_time_max: SOON,
        ..UNLIMITED
    };
    let server = TestServer::start(limits).await;
    let mut client = server.client("GET / HTTP/1.1\r\nhost: h\r\n").await;
    assert_eq!(rest(&mut client).await, "");
    // The head of a later request has the same limit.
    let mut client = server.client("GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    answer(&mut client, "ok").await;
    client.write_all(b"GET").await.unwrap();
    assert_eq!(rest(&mut client).await, "");
}

#[tokio::test]
async fn endless_body_closes_without_answer() {
    let limits = ConnectionLimits {
        body_time_max: SOON,
        ..UNLIMITED
    };
    let server = TestServer::start(limits).await;
    for framing in [
        "content-length: 9\r\n\r\nhalf",
        "transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "content-length: 9\r\n\r\n",
    ] {
        let head = "POST /echo HTTP/1.1\r\nhost: h\r\n";
        let mut client = server.client(&format!("{head}{framing}")).await;
        assert_eq!(rest(&mut client).await, "", "{framing}");
    }
}

#[tokio::test]
async fn idle_connection_is_closed() {
    let limits = ConnectionLimits {
        idle_time_max: SOON,
        ..UNLIMITED
    };
    let server = TestServer::start(limits).await;
    assert_eq!(rest(&mut server.client("").await).await, "");
    let mut client = server.client("GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    assert!(rest(&mut client).await.ends_with("\r\n\r\nok"));
}

#[tokio::test]
async fn unread_answer_closes_the_connection() {
    let limits = ConnectionLimits {
        write_time_max: SOON,
        ..UNLIMITED
    };
    let server = TestServer::start(limits).await;
    let mut client = server
        .client("GET /large HTTP/1.1\r\nhost: h\r\n\r\n")
        .await;
    // The test reads nothing until the server has closed; then the answer is incomplete.
    in_time(async {
        while !matches!(client.write_all(b" ").await, Err(error) if is_closed(&error)) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut bytes = Vec::new();
    in_time(client.read_to_end(&mut bytes)).await.ok();
    assert!(bytes.len() < 64 << 20);
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}

#[tokio::test]
async fn early_answer_reaches_sending_client() {
    let server = TestServer::start(UNLIMITED).await;
    let length = 900 * 1024;
    let head = format!("POST /early HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
    let mut client = server.client(&head).await;
    // The service answers and closes its side while most of the body is still to come.
    answer(&mut client, "early").await;
    in_time(client.write_all(&vec![b'x'; length]))
        .await
        .unwrap();
    assert_eq!(in_time(client.read(&mut [0])).await.unwrap(), 0);
}

#[tokio::test]
async fn concurrent_connections_are_limited() {
    let limits = ConnectionLimits {
        connections_max: 1,
        idle_time_max: SOON,
        ..UNLIMITED
    };
    let server = TestServer::start(limits).await;
    let begun = Instant::now();
    let mut first = server.client("").await;
    let mut second = server.client("GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    answer(&mut second, "ok").await;
    // The first connection ended by its idle limit, which let the second one in.
    assert!(begun.elapsed() >= SOON);
    assert_eq!(rest(&mut first).await, "");
}

#[tokio::test]
async fn panic_closes_only_its_connection() {
    let server = TestServer::start(UNLIMITED).await;
    let mut panics = server
        .client("GET /panic HTTP/1.1\r\nhost: h\r\n\r\n")
        .await;
    assert_eq!(rest(&mut panics).await, "");
    let mut client = server.client("GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    answer(&mut client, "ok").await;
    server.end().await.unwrap();
}

#[tokio::test]
async fn shutdown_finishes_requests_and_closes_idle() {
    let server = TestServer::start(UNLIMITED).await;
    let mut fresh = server.client("").await;
    let mut idle = server.client("GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    answer(&mut idle, "ok").await;
    let mut busy = server.client("GET /held HTTP/1.1\r\nhost: h\r\n\r\n").await;
    in_time(server.held.notified()).await;

    server.shutdown.cancel();
    assert_eq!(rest(&mut fresh).await, "");
    assert_eq!(rest(&mut idle).await, "");
    in_time(async { while TcpStream::connect(server.address).await.is_ok() {} }).await;

    server.release.notify_one();
    let answer = rest(&mut busy).await;
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nreleased"), "{answer}");
    server.end().await.unwrap();
}

#[tokio::test]
async fn draining_idle_connection_accepts_one_request() {
    let limits = ConnectionLimits {
        idle_drain_time_max: NEVER,
        ..UNLIMITED
    };
    let server = TestServer::start(limits).await;
    let get = "GET / HTTP/1.1\r\nhost: h\r\n\r\n";
    let mut idle = server.client(get).await;
    answer(&mut idle, "ok").await;
    let mut fresh = server.client("").await;

    server.shutdown.cancel();
    in_time(async { while TcpStream::connect(server.address).await.is_ok() {} }).await;
    for client in [&mut idle, &mut fresh] {
        client.write_all(get.as_bytes()).await.unwrap();
        let answer = rest(client).await;
        assert!(answer.contains("connection: close\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    }
    server.end().await.unwrap();
}

#[tokio::test]
async fn unused_idle_connection_closes_after_drain() {
    let limits = ConnectionLimits {
        idle_drain_time_max: SOON,
        ..UNLIMITED
    };
    let server = TestServer::start(limits).await;
    let mut idle = server.client("").await;
    server.shutdown.cancel();
    assert_eq!(rest(&mut idle).await, "");
    server.end().await.unwrap();
}

#[tokio::test]
async fn shutdown_answers_connections_queued_in_kernel() {
    let limits = ConnectionLimits {
        connections_max: 1,
        idle_drain_time_max: NEVER,
        ..UNLIMITED
    };
    let server = TestServer::start(limits).await;
    let mut busy = server.client("GET /held HTTP/1.1\r\nhost: h\r\n\r\n").await;
    in_time(server.held.notified()).await;
    // Waits in the kernel's queue: not accepted while the other connection exists.
    let mut queued = server.client("GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    server.shutdown.cancel();
    assert!(rest(&mut queued).await.ends_with("\r\n\r\nok"));
    server.release.notify_one();
    assert!(rest(&mut busy).await.ends_with("\r\n\r\nreleased"));
    server.end().await.unwrap();
}

#[tokio::test]
async fn slow_client_does_not_fail_shutdown() {
    let limits = ConnectionLimits {
        drain_time_max: SOON,
        ..UNLIMITED
    };
    let server = TestServer::start(limits).await;
    let head = "POST /echo HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut endless = server.client(head).await;
    let mut waiting = server.client("GET /held HTTP/1.1\r\nhost: h\r\n\r\n").await;
    in_time(server.held.notified()).await;
    server.end().await.unwrap();
    assert_eq!(rest(&mut endless).await, "");
    assert_eq!(rest(&mut waiting).await, "");
}

#[tokio::test]
async fn oversized_head_gets_431_and_close() {
    let server = TestServer::start(UNLIMITED).await;
    let head = format!(
        "GET / HTTP/1.1\r\nhost: h\r\nx: {}\r\n\r\n",
        "x".repeat(64 * 1024)
    );
    let mut client = server.client(&head).await;
    let answer = rest(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}
