//! nginx alone, with stubs in place of the services.

mod admin;

use std::{
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

use linkledger_testing::eventually;
use reqwest::Method;
use serde_json::Value;

use super::{
    fixture::Fixture,
    nginx::{self, Addresses, NO_LIMITS, Nginx, Upstreams},
    stub::{
        Behaviour::{Answers, AnswersLate, AnswersLongHeader, BreaksOff},
        LONG_HEADER_BYTES, Stub,
    },
};

const KEY: &str = "00000000-0000-4000-8000-000000000001";

fn method(name: &str) -> Method {
    name.parse().unwrap()
}

#[tokio::test]
async fn ingress_routes_by_method() {
    let Some(fixture) = Fixture::new(Answers, NO_LIMITS).await else {
        return;
    };
    let client = fixture.nginx.client();
    for (name, reached) in [
        ("POST", [1, 0, 0]),
        ("PATCH", [1, 0, 0]),
        ("DELETE", [1, 0, 0]),
        ("GET", [0, 1, 0]),
        ("HEAD", [0, 1, 0]),
        ("OPTIONS", [0, 1, 0]),
        ("PUT", [0, 1, 0]),
        ("PROPFIND", [0, 1, 0]),
        // nginx itself would refuse TRACE without listing the allowed methods.
        ("TRACE", [0, 1, 0]),
    ] {
        for path in ["/v1/links", "/v1/links/lnk_1", "/v1/events", "/"] {
            let url = format!("{}{path}", fixture.nginx.api_url);
            let answer = client.request(method(name), url).send().await.unwrap();
            assert_eq!(answer.status(), 200, "{name} {path}");
            assert_eq!(
                fixture.reached().map(|it| it.len()),
                reached,
                "{name} {path}"
            );
        }
        let url = format!("{}/Spring", fixture.nginx.short_url);
        client.request(method(name), url).send().await.unwrap();
        assert_eq!(fixture.reached().map(|it| it.len()), [0, 0, 1], "{name}");
    }
}

#[tokio::test]
async fn ingress_replaces_headers_and_keeps_the_path() {
    let Some(fixture) = Fixture::new(Answers, NO_LIMITS).await else {
        return;
    };
    let client_headers = "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 6.6.6.7\r\nX_Forwarded_For: 6.6.6.8\r\n\
        Forwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded-Proto: spoofed\r\n\
        X-Forwarded-Host: spoofed\r\nX-Forwarded-Port: 6666\r\nX-Forwarded-Prefix: /spoofed\r\n\
        X-Request-Id: spoofed\r\ntracestate: spoofed=1\r\n\
        traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\
        Connection: close, X-Kept\r\nX-Kept: kept\r\nTE: trailers\r\nUpgrade: h2c\r\n";
    for path in [
        "/v1/links",
        "/v1/links/a%2Fb?x=%2F&y=a+b",
        "/v1//links",
        "//v1/links",
        "/v1/links/../links",
        "/v1/%6Cinks/",
    ] {
        for (name, nth) in [("GET", 1), ("PATCH", 0)] {
            let sent = format!("{name} {path} HTTP/1.1\r\nHost: localhost\r\n{client_headers}\r\n");
            let answer = fixture.exchange(&sent).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            let request = fixture.reached()[nth].remove(0);
            assert!(
                request.starts_with(&format!("{name} {path} HTTP/1.1\r\n")),
                "{request}"
            );
            let lower = request.to_lowercase();
            for gone in [
                "6.6.6",
                "spoofed",
                "6666",
                "0af7651916cd43dd8448eb211c80319c",
                "h2c",
                "trailers",
            ] {
                assert!(!lower.contains(gone), "{gone}: {request}");
            }
            for there in [
                "\r\nx-forwarded-for: 127.0.0.1\r\n",
                "\r\nx-forwarded-proto: http\r\n",
                "\r\nforwarded: for=127.0.0.1;proto=http\r\n",
                "\r\nx-request-id: req_",
                "\r\ntraceparent: 00-",
                "\r\nx-kept: kept\r\n",
                "\r\nhost: localhost\r\n",
            ] {
                assert_eq!(lower.matches(there).count(), 1, "{there}: {request}");
            }
            assert!(!lower.contains("\r\nconnection:"), "{request}");
        }
    }
}

#[tokio::test]
async fn short_host_names_the_client_but_does_not_log_it() {
    let Some(fixture) = Fixture::new(Answers, NO_LIMITS).await else {
        return;
    };
    let client = fixture.nginx.client();
    for url in [&fixture.nginx.api_url, &fixture.nginx.short_url] {
        let request = client.get(format!("{url}/spring"));
        let request = request
            .header("forwarded", "for=6.6.6.6")
            .header("x-forwarded-for", "6.6.6.6")
            .header("user-agent", "Spying/1.0")
            .header("referer", "https://spied.example/");
        assert_eq!(request.send().await.unwrap().status(), 200);
    }
    let [_, _, visits] = fixture.reached();
    let visit = visits[0].to_lowercase();
    for header in ["x-forwarded-for: 127.0.0.1", "forwarded: for=127.0.0.1;"] {
        let header = format!("\r\n{header}");
        assert_eq!(visit.matches(&header).count(), 1, "{visit}");
    }
    assert!(!visit.contains("6.6.6.6"), "{visit}");
    let [api, short] = eventually("both requests are logged", async || {
        <[Value; 2]>::try_from(fixture.nginx.access_log()).ok()
    })
    .await;
    assert_eq!(api["client"], "127.0.0.1");
    let logged = short.to_string();
    for secret in ["client", "Spying", "spied", "6.6.6.6"] {
        assert!(!logged.contains(secret), "{secret}: {logged}");
    }
}

/// Method, path, idempotency key, and true if nginx may retry the request.
#[rustfmt::skip]
const REPEATED_OR_NOT: &[(&str, &str, Option<&str>, bool)] = &[
    ("GET", "/v1/links", None, true),
    ("OPTIONS", "/v1/links", None, true),
    ("GET", "/v1/events", None, true),
    ("OPTIONS", "/v1/events", None, true),
    ("POST", "/v1/links", Some(KEY), true),
    ("DELETE", "/v1/links/lnk_1", None, true),
    ("POST", "/v1/links", None, false),
    ("POST", "/v1/links", Some(""), false),
    ("POST", "/v1/links/lnk_1", Some(KEY), false),
    ("POST", "/v1/events", Some(KEY), false),
    ("PATCH", "/v1/links/lnk_1", None, false),
    ("PATCH", "/v1/links/lnk_1", Some(KEY), false),
    ("PATCH", "/v1/links", Some(KEY), false),
];

#[tokio::test]
async fn ingress_retries_only_safe_requests() {
    let Some(program) = nginx::program() else {
        return;
    };
    let stubs = [Stub::start(BreaksOff).await, Stub::start(BreaksOff).await];
    let both: Vec<String> = stubs.iter().map(|it| it.address.clone()).collect();
    let upstreams = Upstreams::same(both);
    let nginx = Nginx::start(&program, &Addresses::new(), &upstreams, NO_LIMITS).await;
    let client = nginx.client();
    for (name, path, key, is_repeated) in REPEATED_OR_NOT {
        let (status, code) = match *name {
            "GET" | "OPTIONS" => (503, "overloaded"),
            _ => (504, "deadline_exceeded"),
        };
        let request = client.request(method(name), format!("{}{path}", nginx.api_url));
        let request = request.body("{}");
        let request = match key {
            Some(key) => request.header("idempotency-key", *key),
            None => request,
        };
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status, "{name} {path}");
        let body: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        assert_eq!(body["code"], code, "{name} {path}");
        let may_have = (status == 504).then_some(&Value::Bool(true));
        assert_eq!(body.get("may_have_succeeded"), may_have);
        let attempts: usize = stubs.iter().map(|it| it.take().len()).sum();
        assert_eq!(
            attempts > 1,
            *is_repeated,
            "{name} {path} {key:?}: {attempts}"
        );
        assert!((1..=3).contains(&attempts), "{name} {path}: {attempts}");
    }
}

#[tokio::test]
async fn read_of_events_may_wait() {
    let Some(fixture) = Fixture::new(AnswersLate, NO_LIMITS).await else {
        return;
    };
    let get = async |path: &str| {
        let url = format!("{}{path}", fixture.nginx.api_url);
        fixture.nginx.client().get(url).send().await.unwrap()
    };
    let (events, links) = tokio::join!(get("/v1/events?wait=25"), get("/v1/links"));
    assert_eq!(events.status(), 200);
    assert_eq!(links.status(), 503);
    let [_, reads, _] = fixture.reached();
    let of_events = reads.iter().filter(|it| it.starts_with("GET /v1/events"));
    assert_eq!(of_events.count(), 1, "{reads:?}");
}

#[tokio::test]
async fn ingress_skips_unreachable_processes() {
    let Some(program) = nginx::program() else {
        return;
    };
    let stub = Stub::start(Answers).await;
    let gone = crate::services::free_address();
    let both = vec![gone, stub.address.clone()];
    let upstreams = Upstreams::same(both);
    let nginx = Nginx::start(&program, &Addresses::new(), &upstreams, NO_LIMITS).await;
    let client = nginx.client();
    for _ in 0..50 {
        for name in ["GET", "POST", "PATCH", "DELETE"] {
            let url = format!("{}/v1/links/lnk_1", nginx.api_url);
            let answer = client.request(method(name), url).body("{}").send().await;
            assert_eq!(answer.unwrap().status(), 200, "{name}");
        }
    }
    assert_eq!(stub.take().len(), 200);
}

#[tokio::test]
async fn ingress_keeps_strong_etags() {
    let Some(fixture) = Fixture::new(Answers, NO_LIMITS).await else {
        return;
    };
    let client = fixture.nginx.client();
    let url = format!("{}/v1/links/lnk_1", fixture.nginx.api_url);
    let answer = client
        .get(url)
        .header("accept-encoding", "gzip")
        .send()
        .await;
    let answer = answer.unwrap();
    assert_eq!(answer.headers()["etag"], "\"1\"");
    assert!(!answer.headers().contains_key("content-encoding"));
}

#[tokio::test]
async fn ingress_passes_long_header() {
    let Some(fixture) = Fixture::new(AnswersLongHeader, NO_LIMITS).await else {
        return;
    };
    let url = format!("{}/v1/links", fixture.nginx.api_url);
    let answer = fixture.nginx.client().get(url).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["link"].len(), LONG_HEADER_BYTES);
}

#[tokio::test]
async fn short_host_errors_are_html_pages() {
    let Some(fixture) = Fixture::new(BreaksOff, NO_LIMITS).await else {
        return;
    };
    let client = fixture.nginx.client();
    let follow = async |accept: &str| {
        let request = client.get(format!("{}/Spring", fixture.nginx.short_url));
        let answer = request.header("accept", accept).send().await.unwrap();
        assert_eq!(answer.status(), 503);
        answer.headers()["content-type"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(follow("text/html,*/*").await, "text/html; charset=utf-8");
    assert_eq!(follow("application/json").await, "application/problem+json");
}

#[tokio::test]
async fn errors_of_short_host_are_not_logged() {
    let Some(fixture) = Fixture::new(BreaksOff, NO_LIMITS).await else {
        return;
    };
    let client = fixture.nginx.client();
    for url in [&fixture.nginx.short_url, &fixture.nginx.api_url] {
        let request = client.get(format!("{url}/spring"));
        let request = request.header("referer", format!("{url}/spied"));
        assert_eq!(request.send().await.unwrap().status(), 503);
    }
    let log = fixture.nginx.error_log();
    assert!(
        log.contains(&format!("{}/spied", fixture.nginx.api_url)),
        "{log}"
    );
    assert!(!log.contains(&fixture.nginx.short_url), "{log}");
}

#[tokio::test]
async fn unreadable_request_without_tls_gets_a_page() {
    let Some(fixture) = Fixture::new(Answers, NO_LIMITS).await else {
        return;
    };
    let get = |path: &str, headers: &str| {
        format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n")
    };
    for (sent, status, shown) in [
        (
            get("/%zz", "Host: localhost\r\n"),
            400,
            "<p>Check the address",
        ),
        (get("/", ""), 400, "<p>Check the address"),
        (
            get("/", "Host: other.example\r\n"),
            421,
            "<h1>There are no links at this address",
        ),
    ] {
        let answer = fixture.exchange_with_short_host(&sent).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        let head = answer.to_lowercase();
        assert!(
            head.contains("\r\ncontent-type: text/html; charset=utf-8\r\n"),
            "{answer}"
        );
        assert!(head.contains("\r\nx-request-id: req_"), "{answer}");
        assert!(answer.contains(shown), "{answer}");
    }
    let json = "Host: other.example\r\nAccept: application/json\r\n";
    let answer = fixture.exchange_with_short_host(&get("/", json)).await;
    assert!(answer.contains("\"code\":\"host_not_served\""), "{answer}");
    assert!(fixture.reached().iter().all(Vec::is_empty));
}

#[tokio::test(flavor = "multi_thread")]
async fn renewed_certificate_fails_no_request() {
    let Some(fixture) = Fixture::new(Answers, NO_LIMITS).await else {
        return;
    };
    let is_renewed = AtomicBool::new(false);
    let ask = async {
        let client = fixture.nginx.client();
        let url = format!("{}/v1/links", fixture.nginx.api_url);
        let mut answers = 0_u32;
        while !is_renewed.load(Ordering::Relaxed) {
            assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
            answers += 1;
        }
        answers
    };
    let renew = async {
        for name in ["second", "third"] {
            fixture.nginx.renew_certificate(name);
            eventually("the certificate is the new one", async || {
                subject(&fixture.nginx).contains(name).then_some(())
            })
            .await;
        }
        is_renewed.store(true, Ordering::Relaxed);
    };
    let (answers, ()) = tokio::join!(ask, renew);
    assert!(answers > 0);
    assert!(!fixture.nginx.error_log().contains("[emerg]"));
}

/// Subject of the certificate that a new connection gets.
fn subject(nginx: &Nginx) -> String {
    let port = nginx.api_url.rsplit_once(':').unwrap().1;
    let mut openssl = Command::new("openssl");
    openssl.args([
        "s_client",
        "-connect",
        &format!("127.0.0.1:{port}"),
        "-servername",
        "localhost",
    ]);
    let output = openssl.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .find(|it| it.starts_with("subject"))
        .unwrap_or_default()
        .to_owned()
}
