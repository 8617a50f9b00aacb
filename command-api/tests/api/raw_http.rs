//! Answers to bytes that no well-behaved client sends. If the HTTP library answers, the body is empty and the connection ends;
//! every other answer is a problem.

mod body;
mod connection;
mod head;

use std::{net::SocketAddr, time::Duration};

use linkledger_core::api_key::ApiKey;
use linkledger_service::lifecycle::{ConnectionLimits, Tasks, listen, serve_within};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::support::{TestApp, fresh_key};

/// Timeout of a test.
const DEADLINE: Duration = Duration::from_mins(2);
const BODY: &str = r#"{"destination_url":"https://example.com/"}"#;

struct RawServer {
    app: TestApp,
    address: SocketAddr,
    _tasks: Tasks,
}

/// Answer as received.
#[derive(Debug, PartialEq)]
struct RawAnswer {
    status: u16,
    head: String,
    body: String,
}

impl RawServer {
    async fn start() -> Self {
        Self::start_within(ConnectionLimits::default()).await
    }

    async fn start_within(limits: ConnectionLimits) -> Self {
        let app = TestApp::start().await;
        let mut tasks = Tasks::new(CancellationToken::new());
        let listener = listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        serve_within(limits, &mut tasks, "test", listener, app.router.clone());
        Self {
            app,
            address,
            _tasks: tasks,
        }
    }

    async fn connect(&self, sent: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(sent.as_ref()).await.unwrap();
        stream
    }

    /// Returns all answers to the bytes, until the service closes the connection.
    async fn exchange(&self, sent: impl AsRef<[u8]>) -> Vec<RawAnswer> {
        let mut stream = self.connect(sent).await;
        read_to_end(&mut stream).await
    }

    /// Returns the only answer to the bytes.
    async fn answer(&self, sent: impl AsRef<[u8]>) -> RawAnswer {
        let sent = sent.as_ref();
        let mut answers = self.exchange(sent).await;
        let shown = String::from_utf8_lossy(&sent[..sent.len().min(200)]);
        assert_eq!(answers.len(), 1, "{shown}: {answers:?}");
        answers.remove(0)
    }
}

async fn read_to_end(stream: &mut TcpStream) -> Vec<RawAnswer> {
    let mut bytes = Vec::new();
    timeout(DEADLINE, stream.read_to_end(&mut bytes))
        .await
        .expect("the connection ends")
        .unwrap();
    parse(&String::from_utf8(bytes).unwrap())
}

/// Parses consecutive answers; panics on any other bytes.
fn parse(mut text: &str) -> Vec<RawAnswer> {
    let mut answers = Vec::new();
    while !text.is_empty() {
        let (head, rest) = text.split_once("\r\n\r\n").expect("a whole head");
        let status = head[9..12].parse().expect("a status");
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().expect("a length"));
        answers.push(RawAnswer {
            status,
            head: head.to_owned(),
            body: rest[..length].to_owned(),
        });
        text = &rest[length..];
    }
    answers
}

impl RawAnswer {
    /// Checks the form of the problem and returns its code; `None` for an empty body.
    fn code(&self) -> Option<String> {
        if self.body.is_empty() {
            return None;
        }
        assert!(
            self.head.contains("content-type: application/problem+json"),
            "{self:?}"
        );
        let body: Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(body["status"], self.status);
        Some(body["code"].as_str().unwrap().to_owned())
    }

    fn has(&self, header: &str) -> bool {
        self.head.lines().any(|line| line == header)
    }
}

/// Head of a create, without the headers that frame the body.
fn head(key: &ApiKey) -> String {
    format!(
        "POST /v1/links HTTP/1.1\r\nHost: api.sho.rt\r\nConnection: close\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nIdempotency-Key: {}\r\n",
        key.reveal(),
        fresh_key()
    )
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}
