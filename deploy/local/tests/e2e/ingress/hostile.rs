//! Requests of hostile and of faulty clients.

use linkledger_http::problem::Code;
use reqwest::StatusCode;
use serde_json::Value;

use super::{fixture::Fixture, nginx::NO_LIMITS, stub::Behaviour::Answers};

/// Asserts that the response is a documented problem.
fn assert_is_problem(answer: &str, code: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
    let head = head.to_lowercase();
    let catalogued = Code::find(code).expect("a code of the catalogue");
    let body: Value = serde_json::from_str(body).expect(body);
    assert!(
        head.starts_with(&format!("http/1.1 {}", catalogued.status())),
        "{head}"
    );
    assert!(
        head.contains("\r\ncontent-type: application/problem+json"),
        "{head}"
    );
    assert_eq!(body["status"], catalogued.status(), "{body}");
    assert_eq!(body["code"], code, "{body}");
    assert_eq!(body["title"], catalogued.title(), "{body}");
    let page = format!("/docs/problems/{code}");
    assert!(body["type"].as_str().unwrap().ends_with(&page), "{body}");
    let id = body["request_id"].as_str().unwrap();
    assert!(head.contains(&format!("\r\nx-request-id: {id}")), "{head}");
    assert_eq!(id.len(), "req_".len() + 20, "{id}");
    assert_eq!(body["instance"], format!("urn:linkledger:request:{id}"));
    assert!(!body["detail"].as_str().unwrap().is_empty(), "{body}");
}

#[tokio::test]
async fn ingress_errors_are_documented_problems() {
    let Some(fixture) = Fixture::new(Answers, NO_LIMITS).await else {
        return;
    };
    let get = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let long = "x".repeat(20_000);
    let post = "POST /v1/links HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let mut cases = vec![
        (
            format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            "uri_too_long",
        ),
        (format!("{get}X: {long}\r\n\r\n"), "headers_too_large"),
        (
            format!("{post}Content-Length: 65537\r\n\r\n"),
            "content_too_large",
        ),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "invalid_header"),
        ("G\0T / HTTP/1.1\r\n\r\n".to_owned(), "invalid_header"),
        (format!("{get}Host: localhost\r\n\r\n"), "invalid_header"),
        (format!("{get}no colon\r\n\r\n"), "invalid_header"),
        (format!("{get}Content-Length: -1\r\n\r\n"), "invalid_header"),
        (
            format!("{post}Transfer-Encoding: gzip\r\n\r\n"),
            "invalid_header",
        ),
        (get.replace("1.1", "3.0") + "\r\n", "invalid_header"),
    ];
    for closed in [
        "/livez",
        "/readyz",
        "/metrics",
        "/metrics/x",
        "/%6Detrics",
        "/x/../readyz",
    ] {
        let sent = format!("GET {closed} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        cases.push((sent, "route_not_found"));
    }
    let other_host = "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    cases.push((other_host.to_owned(), "host_not_served"));
    for (sent, code) in cases {
        assert_is_problem(&fixture.exchange(&sent).await, code);
    }
    assert!(fixture.reached().iter().all(Vec::is_empty));
}

#[tokio::test]
async fn request_smuggling_is_impossible() {
    let Some(fixture) = Fixture::new(Answers, NO_LIMITS).await else {
        return;
    };
    let post = "POST /v1/links HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
    let inner = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let length = inner.len();
    let chunked = format!("0\r\n\r\n{inner}");
    for sent in [
        format!(
            "{post}Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}",
            chunked.len()
        ),
        format!("{post}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n{chunked}"),
        format!("{post}Transfer-Encoding: xchunked\r\nContent-Length: {length}\r\n\r\n{inner}"),
        format!("{post}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n{chunked}"),
        format!("{post}Transfer-Encoding : chunked\r\nContent-Length: {length}\r\n\r\n{inner}"),
        format!("{post}Transfer-Encoding:\x0bchunked\r\nContent-Length: {length}\r\n\r\n{inner}"),
        format!("{post}Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{inner}"),
        format!("{post}Content-Length: {length}, 0\r\n\r\n{inner}"),
        format!("{post}Content-Length: +{length}\r\n\r\n{inner}"),
        format!("{post}Content-Length: {length}\r\n\r\n{inner}"),
        format!("{post}X: y\r\n Content-Length: 0\r\n\r\n{inner}"),
        format!("{post}Content_Length: 0\r\nContent-Length: {length}\r\n\r\n{inner}"),
        format!(
            "{post}Transfer-Encoding: chunked\r\n\r\n{length:x};a=\"\r\n\"\r\n{inner}\r\n0\r\n\r\n"
        ),
    ] {
        fixture.exchange(&sent).await;
        let [commands, reads, _] = fixture.reached();
        assert_eq!(reads, [] as [String; 0], "{sent}");
        assert!(commands.len() <= 1, "{sent}: {commands:?}");
        let framings = |it: &String| {
            let head = it.split_once("\r\n\r\n").unwrap().0.to_lowercase();
            head.matches("content-length:").count() + head.matches("transfer-encoding:").count()
        };
        assert!(
            commands.iter().all(|it| framings(it) <= 1),
            "{sent}: {commands:?}"
        );
    }
}

#[tokio::test]
async fn slow_client_is_cut_off_at_the_ingress() {
    let Some(fixture) = Fixture::new(Answers, NO_LIMITS).await else {
        return;
    };
    let head = "POST /v1/links HTTP/1.1\r\nHost: localhost\r\n";
    let body = format!("{head}Content-Length: 9\r\n\r\nhalf");
    let (no_head, no_body) = tokio::join!(fixture.exchange(head), fixture.exchange(&body));
    assert_eq!((no_head.as_str(), no_body.as_str()), ("", ""));
    assert!(fixture.reached().iter().all(Vec::is_empty));
}

#[tokio::test]
async fn rate_limit_by_network_sends_retry_after() {
    let few = NO_LIMITS.replace(
        "zone=api_requests:1m rate=100000r/s",
        "zone=api_requests:1m rate=1r/m",
    );
    let Some(fixture) = Fixture::new(Answers, &few).await else {
        return;
    };
    let client = fixture.nginx.client();
    let mut refused = 0;
    // The burst is 400.
    for nth in 0..410 {
        let url = format!("{}/v1/links", fixture.nginx.api_url);
        let spoofed = format!("10.0.0.{}", nth % 250);
        let answer = client
            .get(url)
            .header("x-forwarded-for", spoofed)
            .send()
            .await
            .unwrap();
        if answer.status() == StatusCode::TOO_MANY_REQUESTS {
            assert_eq!(answer.headers()["retry-after"], "1");
            refused += 1;
        }
    }
    assert!((8..=9).contains(&refused), "{refused}");
    let sent = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_is_problem(&fixture.exchange(sent).await, "rate_limited");
}
