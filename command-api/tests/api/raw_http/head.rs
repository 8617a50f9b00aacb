//! Requests with an odd, wrong or overlong head.

use super::RawServer;

#[tokio::test]
async fn non_http_input_is_answered_and_closed() {
    let server = RawServer::start().await;
    let get = "GET /v1/links HTTP/1.1\r\nHost: api.sho.rt\r\n";
    let long = "x".repeat(70_000);
    let headers = "X: y\r\n".repeat(101);
    for (sent, status) in [
        ("\0\r\n\r\n".to_owned(), 400),
        ("GET\r\n\r\n".to_owned(), 400),
        ("GET /v1/links\r\n\r\n".to_owned(), 400),
        (
            "GET /v1/links HTTP/3.7\r\nHost: api.sho.rt\r\n\r\n".to_owned(),
            400,
        ),
        (
            "GET /a b HTTP/1.1\r\nHost: api.sho.rt\r\n\r\n".to_owned(),
            400,
        ),
        ("G@T / HTTP/1.1\r\nHost: api.sho.rt\r\n\r\n".to_owned(), 400),
        (format!("{get}X : y\r\n\r\n"), 400),
        (format!("{get}X: a\r\n b\r\n\r\n"), 400),
        (format!("{get}X: a\0b\r\n\r\n"), 400),
        (format!("{get}X: a\rb\r\n\r\n"), 400),
        (format!("{get}no colon\r\n\r\n"), 400),
        (format!("{get}Transfer-Encoding: gzip\r\n\r\n"), 400),
        (format!("{get}Content-Length: -1\r\n\r\n"), 400),
        (format!("{get}Content-Length: +5\r\n\r\n"), 400),
        (format!("{get}Content-Length: 0x10\r\n\r\n"), 400),
        (format!("{get}Content-Length: 5,5\r\n\r\n"), 400),
        (
            format!("{get}Content-Length: 99999999999999999999\r\n\r\n"),
            400,
        ),
        (
            format!("{get}Content-Length: 5\r\nContent-Length: 6\r\n\r\n"),
            400,
        ),
        (format!("{get}{headers}\r\n"), 431),
        (format!("{get}X: {long}\r\n\r\n"), 431),
        (
            format!("GET /{long} HTTP/1.1\r\nHost: api.sho.rt\r\n\r\n"),
            431,
        ),
    ] {
        let answer = server.answer(&sent).await;
        let shown: String = sent.chars().take(100).collect();
        assert_eq!((answer.status, answer.code()), (status, None), "{shown:?}");
        assert!(answer.has("connection: close"), "{answer:?}");
    }
    let http_2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    assert_eq!(server.exchange(http_2).await, []);
}

#[tokio::test]
async fn overlong_head_returns_a_problem() {
    let server = RawServer::start().await;
    let get = "GET /v1/links HTTP/1.1\r\nHost: api.sho.rt\r\nConnection: close\r\n";
    let path = "x".repeat(9_000);
    let headers = "X: y\r\n".repeat(65);
    for (sent, status, code) in [
        (
            format!("GET /{path} HTTP/1.1\r\nHost: api.sho.rt\r\nConnection: close\r\n\r\n"),
            414,
            "uri_too_long",
        ),
        (format!("{get}{headers}\r\n"), 431, "headers_too_large"),
        (
            format!("{get}X: {}\r\n\r\n", "y".repeat(20_000)),
            431,
            "headers_too_large",
        ),
    ] {
        let answer = server.answer(&sent).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.code().as_deref(), Some(code));
        assert!(!answer.head.contains("allow: "), "{answer:?}");
    }
}

const HOSTS_TARGETS_METHODS_AND_VERSIONS: &[(&str, u16, Option<&str>)] = &[
    ("PUT /v1/links HTTP/1.1\r\n", 400, Some("invalid_header")),
    ("PUT /v1/links HTTP/1.0\r\n", 400, Some("invalid_header")),
    (
        "PUT /v1/links HTTP/1.1\r\nHost:\r\n",
        400,
        Some("invalid_header"),
    ),
    (
        "PUT /v1/links HTTP/1.1\r\nHost: a b\r\n",
        400,
        Some("invalid_header"),
    ),
    (
        "PUT http://h/v1/links HTTP/1.1\r\n",
        400,
        Some("invalid_header"),
    ),
    (
        "PUT /v1/links HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
        400,
        Some("invalid_header"),
    ),
    // A single line feed also ends a line (RFC 9112, 2.2).
    (
        "PUT /v1/links HTTP/1.1\nHost: api.sho.rt\n",
        405,
        Some("method_not_allowed"),
    ),
    (
        "PUT /v1/links HTTP/1.0\r\nHost: api.sho.rt\r\n",
        405,
        Some("method_not_allowed"),
    ),
    // The host of the target counts, and not that of the header (RFC 9112, 3.2.2).
    (
        "PUT http://evil.example/v1/links HTTP/1.1\r\nHost: api.sho.rt\r\n",
        421,
        Some("host_not_served"),
    ),
    (
        "PUT http://api.sho.rt:80/v1/links HTTP/1.1\r\nHost: evil.example\r\n",
        405,
        Some("method_not_allowed"),
    ),
    (
        "PUT /v1/links HTTP/1.1\r\nHost: sho.rt\r\n",
        421,
        Some("host_not_served"),
    ),
    (
        "PUT /v1/links HTTP/1.1\r\nHost: API.sho.rt.:8443\r\n",
        405,
        Some("method_not_allowed"),
    ),
    (
        "TRACE /v1/links HTTP/1.1\r\nHost: api.sho.rt\r\nX-Secret: s\r\n",
        405,
        Some("method_not_allowed"),
    ),
    (
        "get /v1/links HTTP/1.1\r\nHost: api.sho.rt\r\n",
        405,
        Some("method_not_allowed"),
    ),
    (
        "FOO /v1/links HTTP/1.1\r\nHost: api.sho.rt\r\n",
        405,
        Some("method_not_allowed"),
    ),
    (
        "CONNECT h:443 HTTP/1.1\r\nHost: api.sho.rt\r\n",
        421,
        Some("host_not_served"),
    ),
    ("OPTIONS * HTTP/1.1\r\nHost: api.sho.rt\r\n", 204, None),
    (
        "OPTIONS /v1/links HTTP/1.1\r\nHost: api.sho.rt\r\n",
        204,
        None,
    ),
    (
        "OPTIONS /v1/links/ HTTP/1.1\r\nHost: api.sho.rt\r\n",
        404,
        Some("route_not_found"),
    ),
    (
        "POST /v1/link%73 HTTP/1.1\r\nHost: api.sho.rt\r\n",
        404,
        Some("route_not_found"),
    ),
    (
        "POST /v1/./links HTTP/1.1\r\nHost: api.sho.rt\r\n",
        404,
        Some("route_not_found"),
    ),
    (
        "POST /v1/links;x HTTP/1.1\r\nHost: api.sho.rt\r\n",
        404,
        Some("route_not_found"),
    ),
    (
        "POST /v1%2Flinks HTTP/1.1\r\nHost: api.sho.rt\r\n",
        404,
        Some("route_not_found"),
    ),
    (
        "POST //v1/links HTTP/1.1\r\nHost: api.sho.rt\r\n",
        404,
        Some("route_not_found"),
    ),
    (
        "POST /%zz/%ff HTTP/1.1\r\nHost: api.sho.rt\r\n",
        404,
        Some("route_not_found"),
    ),
    // The service never switches the protocol.
    (
        "PUT /v1/links HTTP/1.1\r\nHost: api.sho.rt\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n",
        405,
        Some("method_not_allowed"),
    ),
];

#[tokio::test]
async fn unusual_hosts_targets_methods_and_versions() {
    let server = RawServer::start().await;
    let close = "Connection: close\r\n\r\n";
    for (sent, status, code) in HOSTS_TARGETS_METHODS_AND_VERSIONS {
        let answer = server.answer(format!("{sent}{close}")).await;
        assert_eq!(
            (answer.status, answer.code().as_deref()),
            (*status, *code),
            "{sent}"
        );
        assert_eq!(answer.has("allow: GET, HEAD, POST, OPTIONS"), {
            *status == 405 || sent.starts_with("OPTIONS /v1/links HTTP")
        });
        let may_tell = matches!(status, 204 | 405);
        assert!(
            may_tell || !answer.head.contains("allow: "),
            "{sent}: {answer:?}"
        );
        assert!(!answer.body.contains("X-Secret"), "{sent}");
    }
}
