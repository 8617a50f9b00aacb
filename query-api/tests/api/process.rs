//! The service as a process: real sockets, readiness, shutdown, and failures at the start.

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::Stdio,
};

use http_body_util::{BodyExt as _, Empty};
use hyper::{Method, Request, Response, Uri, body::Bytes};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use linkledger_query_api::{QueryApiListeners, serve};
use linkledger_service::lifecycle::listen;
use linkledger_testing::TestDatabase;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Command,
};
use tokio_util::sync::CancellationToken;

use crate::service;

pub(crate) const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(crate) async fn request(method: Method, address: SocketAddr, path: &str) -> Response<String> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let uri: Uri = format!("http://{address}{path}").parse().unwrap();
    let request = Request::builder().method(method).uri(uri);
    let response = client
        .request(request.body(Empty::new()).unwrap())
        .await
        .unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Response::from_parts(head, String::from_utf8(body.into()).unwrap())
}

/// Sends raw bytes, and returns the answer.
async fn send_raw(address: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn process_serves_four_sockets_until_shutdown() {
    let database = TestDatabase::create().await;
    let listeners = QueryApiListeners {
        api: listen(ANY_PORT).await.unwrap(),
        short_host: listen(ANY_PORT).await.unwrap(),
        admin: Some(listen(ANY_PORT).await.unwrap()),
        internal: listen(ANY_PORT).await.unwrap(),
    };
    let api = listeners.api.local_addr().unwrap();
    let short_host = listeners.short_host.local_addr().unwrap();
    let admin = listeners.admin.as_ref().unwrap().local_addr().unwrap();
    let internal = listeners.internal.local_addr().unwrap();
    let shutdown = CancellationToken::new();

    let visit = async {
        let ready = request(Method::GET, internal, "/readyz").await;
        assert_eq!(ready.status(), 200);
        let links = request(Method::GET, api, "/v1/links").await;
        assert_eq!(links.status(), 401);
        assert_eq!(links.headers()["content-type"], "application/problem+json");

        let head = request(Method::HEAD, api, "/v1/links").await;
        assert_eq!(head.status(), 401);
        assert_eq!(
            head.headers()["content-length"],
            links.headers()["content-length"]
        );
        assert_eq!(head.body(), "");

        for (address, status) in [(admin, 401), (api, 404), (short_host, 404)] {
            let accounts = request(Method::GET, address, "/admin/v1/accounts").await;
            assert_eq!(accounts.status(), status, "{address}");
        }

        let page = request(Method::GET, short_host, "/unknown").await;
        assert_eq!(page.status(), 404);
        assert_eq!(
            page.headers()["content-length"],
            page.body().len().to_string()
        );
        let head = request(Method::HEAD, short_host, "/unknown").await;
        assert_eq!(head.status(), 404);
        assert_eq!(
            head.headers()["content-length"],
            page.headers()["content-length"]
        );
        assert_eq!(head.body(), "");

        let options = "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let no_host = "GET /v1/links HTTP/1.1\r\nConnection: close\r\n\r\n";
        let other_host = "GET /x HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
        for (address, bytes, status) in [
            (api, other_host, "HTTP/1.1 421 "),
            (short_host, other_host, "HTTP/1.1 421 "),
            (admin, other_host, "HTTP/1.1 421 "),
            (api, no_host, "HTTP/1.1 400 "),
            (short_host, no_host, "HTTP/1.1 400 "),
            (api, options, "HTTP/1.1 204 "),
            (short_host, options, "HTTP/1.1 204 "),
        ] {
            let answer = send_raw(address, bytes).await;
            assert!(answer.starts_with(status), "{bytes} {answer}");
        }
        shutdown.cancel();
    };
    let mut config = service::config(&database);
    config.base_url = format!("http://{api}").parse().unwrap();
    config.short_base_url = format!("http://{short_host}").parse().unwrap();
    let (outcome, ()) = tokio::join!(serve(config, listeners, shutdown.clone()), visit);
    outcome.unwrap();
    assert!(TcpStream::connect(api).await.is_err());
}

/// Returns the command `query-api serve` on free ports, with the given environment only.
pub(crate) fn serve_command(environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_query-api"));
    command.arg("serve");
    for listener in ["--api-listen", "--short-listen", "--internal-listen"] {
        command.args([listener, "127.0.0.1:0"]);
    }
    command.env_clear().envs(environment.iter().copied());
    command
}

/// Runs the process with the given environment until it fails to start. Returns the last line of standard
/// error.
async fn fail_to_serve(environment: &[(&str, &str)]) -> String {
    let output = serve_command(environment)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    stderr.lines().last().unwrap().to_owned()
}

#[tokio::test]
async fn failed_start_is_a_one_line_error() {
    let database = TestDatabase::create().await;
    sqlx::query("DELETE FROM read_model._sqlx_migrations WHERE version = 20261128100200")
        .execute(database.pool())
        .await
        .unwrap();
    let settings = [
        ("DATABASE_URL", database.url()),
        ("ALLOW_UNSAFE_POSTGRES", "true"),
    ];
    let line = fail_to_serve(&settings).await;
    assert!(
        line.starts_with("error: cannot use the database 127.0.0.1:"),
        "{line}"
    );
    let expected =
        ": migration 20261128100200 of `read_model` is pending; run `command-api migrate`";
    assert!(line.ends_with(expected), "{line}");
}
