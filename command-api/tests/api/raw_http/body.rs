//! Requests with odd, wrong or hostile framing of the body.

use futures::future::select_all;
use linkledger_core::api_key::ApiKey;
use linkledger_testing::eventually;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{BODY, DEADLINE, RawServer, chunked, head, read_to_end};
use crate::support::fresh_key;

#[tokio::test]
async fn ambiguous_body_framing_is_rejected() {
    let server = RawServer::start().await;
    let (_, key) = server.app.account(100).await;
    let length = BODY.len();
    let plain = format!("Content-Length: {length}\r\n\r\n{BODY}");
    let te = "Transfer-Encoding: chunked\r\n";
    for (framing, status, code) in [
        (plain.clone(), 201, None),
        (format!("Content-Length: {length}\r\n{plain}"), 201, None),
        (format!("{te}\r\n{}", chunked(BODY)), 201, None),
        // Chunk extensions and trailers are ignored.
        (
            format!("{te}\r\n{length:x};a=b\r\n{BODY}\r\n0\r\nX: y\r\n\r\n"),
            201,
            None,
        ),
        (
            "Content-Length: 0\r\n\r\n".to_owned(),
            400,
            Some("malformed_json"),
        ),
        ("\r\n".to_owned(), 400, Some("malformed_json")),
        (format!("{te}\r\nZ\r\n"), 400, Some("malformed_json")),
        (format!("{te}\r\n-1\r\n"), 400, Some("malformed_json")),
        (
            format!("{te}\r\nFFFFFFFFFFFFFFFFF\r\n"),
            400,
            Some("malformed_json"),
        ),
        (
            format!("{te}\r\n1;{}\r\n", "x".repeat(20_000)),
            400,
            Some("malformed_json"),
        ),
        (
            format!("{te}\r\n2\r\n{{}}x\r\n"),
            400,
            Some("malformed_json"),
        ),
        (
            format!("Transfer-Encoding: gzip, chunked\r\n\r\n{}", chunked(BODY)),
            415,
            Some("unsupported_content_encoding"),
        ),
        (
            format!("Content-Encoding: gzip\r\n{plain}"),
            415,
            Some("unsupported_content_encoding"),
        ),
        (
            format!("{te}\r\n{}", chunked(&" ".repeat(32 * 1024 + 1))),
            413,
            Some("content_too_large"),
        ),
        (
            "Content-Length: 32769\r\n\r\n".to_owned(),
            413,
            Some("content_too_large"),
        ),
        (
            "Content-Length: 10000000000\r\n\r\n".to_owned(),
            413,
            Some("content_too_large"),
        ),
    ] {
        let answer = server.answer(format!("{}{framing}", head(&key))).await;
        let shown: String = framing.chars().take(80).collect();
        assert_eq!(answer.status, status, "{shown:?} {answer:?}");
        if status != 201 {
            assert_eq!(answer.code().as_deref(), code, "{shown:?}");
        }
    }
}

/// RFC 9112, 6.1: the library reads the chunks only and closes the connection, which prevents request
/// smuggling.
#[tokio::test]
async fn content_length_beside_chunks_is_ignored() {
    let server = RawServer::start().await;
    let (_, key) = server.app.account(100).await;
    let hidden = "GET /v1/links HTTP/1.1\r\nHost: api.sho.rt\r\n\r\n";
    for headers in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
    ] {
        let head = head(&key).replace("Connection: close\r\n", "");
        let sent = format!("{head}{headers}\r\n{}{hidden}", chunked(BODY));
        assert_eq!(server.answer(sent).await.status, 201);
    }
}

#[tokio::test]
async fn trailers_do_not_become_headers() {
    let server = RawServer::start().await;
    let (_, key) = server.app.account(100).await;
    let head = head(&key);
    let (head, _) = head.split_once("Idempotency-Key").unwrap();
    let body = chunked(BODY).replace("0\r\n\r\n", "0\r\nIdempotency-Key: ");
    let sent = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n{body}{}\r\n\r\n",
        fresh_key()
    );
    let answer = server.answer(sent).await;
    assert_eq!(answer.code().as_deref(), Some("idempotency_key_missing"));
}

#[tokio::test]
async fn expect_continue_is_answered_before_body() {
    let server = RawServer::start().await;
    let (_, key) = server.app.account(100).await;
    let expect = format!("{}Expect: 100-continue\r\n", head(&key));
    let mut stream = server
        .connect(format!("{expect}Content-Length: {}\r\n\r\n", BODY.len()))
        .await;
    let go_on = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut interim = [0; 25];
    timeout(DEADLINE, stream.read_exact(&mut interim))
        .await
        .expect("an interim answer")
        .unwrap();
    assert_eq!(&interim, go_on);
    stream.write_all(BODY.as_bytes()).await.unwrap();
    assert_eq!(read_to_end(&mut stream).await[0].status, 201);

    let answer = server
        .answer(format!("{expect}Content-Length: 32769\r\n\r\n"))
        .await;
    assert_eq!(answer.status, 413);
}

/// A body has its share of the memory from its first 4 KiB on.
#[tokio::test(flavor = "multi_thread")]
async fn unfinished_batches_leave_room_for_others() {
    let server = RawServer::start().await;
    let (_, key) = server.app.account(100).await;
    let (_, other) = server.app.account(100).await;
    let batch = |key: &ApiKey| {
        let head = head(key).replace("/v1/links", "/v1/links/batch");
        let (head, _) = head.split_once("Idempotency-Key").unwrap();
        head.to_owned()
    };
    let item = json!({ "idempotency_key": fresh_key().to_string(), "destination_url": "https://example.com/" });
    let whole = json!({ "items": [item] }).to_string();
    let length = 256 * 1024;
    let padding = " ".repeat(length - whole.len());
    let whole = format!("Content-Length: {length}\r\n\r\n{whole}{padding}");
    let mut unfinished = Vec::new();
    let begun = " ".repeat(4 * 1024 + 1);
    for _ in 0..17 {
        let begun = format!("Content-Length: {length}\r\n\r\n{begun}");
        unfinished.push(server.connect(batch(&key) + &begun).await);
    }
    // Once one of them is answered, the others have all the room of the account.
    let answered = unfinished
        .iter()
        .map(|stream| Box::pin(async move { stream.peek(&mut [0]).await }));
    let answered = timeout(DEADLINE, select_all(answered)).await;
    let (_, refused, _) = answered.expect("an answer");
    let answer = read_to_end(&mut unfinished.remove(refused)).await;
    assert_eq!(answer[0].code().as_deref(), Some("overloaded"));
    for refused in [
        batch(&key) + &whole,
        format!("{}Content-Length: 4097\r\n\r\n{begun}", head(&key)),
        format!(
            "{}Transfer-Encoding: chunked\r\n\r\n{}",
            head(&key),
            chunked(&begun)
        ),
    ] {
        let answer = server.answer(refused).await;
        assert_eq!(answer.code().as_deref(), Some("overloaded"), "{answer:?}");
        assert!(answer.head.contains("retry-after: 1"), "{answer:?}");
    }
    for small in [
        format!("Content-Length: {}\r\n\r\n{BODY}", BODY.len()),
        format!("Transfer-Encoding: chunked\r\n\r\n{}", chunked(BODY)),
    ] {
        assert_eq!(server.answer(head(&key) + &small).await.status, 201);
    }
    assert_eq!(server.answer(batch(&other) + &whole).await.status, 207);

    unfinished.pop();
    eventually("there is room again", async || {
        let answer = server.answer(batch(&key) + &whole).await;
        (answer.status == 207).then_some(())
    })
    .await;
}

#[tokio::test]
async fn refusal_reaches_client_after_full_body() {
    let server = RawServer::start().await;
    let (_, key) = server.app.account(100).await;
    let length = 800 * 1024;
    let head = format!("{}Content-Length: {length}\r\n\r\n", head(&key));
    let answer = server.answer(head + &" ".repeat(length)).await;
    assert_eq!(answer.code().as_deref(), Some("content_too_large"));
}
