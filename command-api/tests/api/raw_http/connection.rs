//! Several requests on one connection, and connections that end too soon.

use std::time::Duration;

use linkledger_service::lifecycle::ConnectionLimits;
use tokio::io::AsyncWriteExt as _;

use super::{BODY, RawServer, head, read_to_end};

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = RawServer::start().await;
    let (_, key) = server.app.account(1_000).await;
    let mut sent = Vec::new();
    let mut expected = Vec::new();
    for number in 0..300 {
        let path = ["/v1/links", "/nothing"][number % 2];
        sent.push(format!("PUT {path} HTTP/1.1\r\nHost: api.sho.rt\r\n\r\n"));
        expected.push([405, 404][number % 2]);
        if number % 50 == 0 {
            // A slower request.
            let head = head(&key).replace("Connection: close\r\n", "");
            sent.push(format!(
                "{head}Content-Length: {}\r\n\r\n{BODY}",
                BODY.len()
            ));
            expected.push(201);
        }
    }
    sent.push("PUT /nothing HTTP/1.1\r\nHost: api.sho.rt\r\nConnection: close\r\n\r\n".to_owned());
    expected.push(404);
    let answers = server.exchange(sent.concat()).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, expected);
}

#[tokio::test]
async fn http10_closes_connection_unless_keep_alive() {
    let server = RawServer::start().await;
    let request = "PUT /v1/links HTTP/1.0\r\nHost: api.sho.rt\r\n";
    let twice = format!("{request}\r\n{request}\r\n");
    assert_eq!(server.exchange(twice).await.len(), 1);
    let kept = format!("{request}Connection: keep-alive\r\n\r\n{request}\r\n");
    assert_eq!(server.exchange(kept).await.len(), 2);
}

#[tokio::test]
async fn incomplete_request_is_closed_unanswered() {
    let limits = ConnectionLimits {
        head_time_max: Duration::from_millis(50),
        body_time_max: Duration::from_millis(50),
        ..ConnectionLimits::default()
    };
    let server = RawServer::start_within(limits).await;
    let (account_id, key) = server.app.account(100).await;
    let head = head(&key);
    for sent in [
        "P".to_owned(),
        head.clone(),
        format!("{head}Content-Length: {}\r\n\r\n{{", BODY.len()),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n"),
    ] {
        assert_eq!(server.exchange(&sent).await, [], "{sent}");
    }
    assert_eq!(server.app.balance(account_id).await, 100);
}

#[tokio::test]
async fn disconnected_client_leaves_nothing_behind() {
    let server = RawServer::start().await;
    let (account_id, key) = server.app.account(100).await;
    for sent in [
        head(&key),
        format!("{}Content-Length: {}\r\n\r\n{{", head(&key), BODY.len()),
    ] {
        let mut stream = server.connect(sent).await;
        stream.shutdown().await.unwrap();
        let answers = read_to_end(&mut stream).await;
        assert!(
            answers.iter().all(|answer| answer.status == 400),
            "{answers:?}"
        );
    }
    let sent = format!("{}Content-Length: {}\r\n\r\n{BODY}", head(&key), BODY.len());
    assert_eq!(server.answer(sent).await.status, 201);
    assert_eq!(server.app.balance(account_id).await, 99);
}
