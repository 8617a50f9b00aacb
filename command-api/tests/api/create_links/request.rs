//! Checks of a batch as a whole: JSON, size, number of items, keys.

use axum::body::Body;
use serde_json::json;

use super::{batch, pointers, raw_batch, statuses};
use crate::support::{TestApp, create, destination, fresh_key, send, with};

const BODY_LENGTH_MAX: usize = 256 * 1024;

#[tokio::test]
async fn errors_of_many_items_stay_small() {
    let app = TestApp::start().await;
    let (_, key) = app.account(0).await;
    let names = |name: &str| {
        let name = |number: u32| format!(r#","{number}{name}":1"#);
        (0..100).map(name).collect::<Vec<String>>().concat()
    };
    for name in ["", "\u{1f600}\u{1f600}\u{1f600}"] {
        let item = || format!(r#"{{"idempotency_key":"{}"{}}}"#, fresh_key(), names(name));
        let items: Vec<String> = (0..100).map(|_| item()).collect();
        let body = format!(r#"{{"items":[{}]}}"#, items.join(","));
        let answer = send(&app.router, raw_batch(&key, body.clone())).await;
        assert_eq!(answer.status, 207);
        let (sent, received) = (body.len(), answer.body.len());
        assert!(received < 3 * sent, "{sent} bytes, {received} bytes");
        let problem = &answer.json()["items"][99]["problem"];
        assert_eq!(problem["errors"].as_array().unwrap().len(), 10);
        assert!(
            problem["detail"]
                .as_str()
                .unwrap()
                .contains("idempotency_key, destination_url")
        );
    }
}

#[tokio::test]
async fn faults_of_envelope_refuse_whole_request() {
    let app = TestApp::start().await;
    let (_, key) = app.account(200).await;
    let used = fresh_key();
    let many = |count| -> Vec<_> { (0..count).map(|_| (fresh_key(), destination())).collect() };
    let item =
        format!(r#"{{"idempotency_key":"{used}","destination_url":"https://example.com/"}}"#);
    let deep = format!("{}1{}", "[".repeat(31), "]".repeat(31));
    for (body, code) in [
        (
            format!(r#"{{"items":[{item}],"items":[]}}"#),
            "malformed_json",
        ),
        (
            format!(r#"{{"items":[{{"idempotency_key":"{used}","slug":"a1b","slug":"c1d"}}]}}"#),
            "malformed_json",
        ),
        (format!(r#"{{"items":[{{"x":{deep}}}]}}"#), "malformed_json"),
        (format!(r#"{{"items":[{item}]"#), "malformed_json"),
        (format!("[{item}]"), "body_not_object"),
        ("{}".to_owned(), "validation_failed"),
        (r#"{"items":[]}"#.to_owned(), "validation_failed"),
        (format!(r#"{{"items":[{item},[]]}}"#), "validation_failed"),
        (
            format!(r#"{{"items":[{item},{item}]}}"#),
            "validation_failed",
        ),
        (
            format!(r#"{{"items":[{item}],"mode":"all"}}"#),
            "validation_failed",
        ),
        (
            format!(r#"{{"items":[{item}],"x":1}}"#),
            "validation_failed",
        ),
        (
            format!(r#"{{"items":[{}]}}"#, vec!["0"; 100_000].join(",")),
            "validation_failed",
        ),
    ] {
        let answer = send(&app.router, raw_batch(&key, body.clone())).await;
        assert_eq!(answer.problem(), code, "{body:.200}");
    }
    let array = send(&app.router, raw_batch(&key, format!("[{item}]"))).await;
    let detail = array.json()["detail"].to_string();
    assert!(detail.contains(r#"{\"items\""#), "{detail}");
    let malformed = send(
        &app.router,
        raw_batch(&key, "{\"items\":\n[1,]}".to_owned()),
    )
    .await;
    let detail = malformed.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.starts_with("The JSON is malformed at line 2, column 4."),
        "{detail}"
    );
    let answer = send(&app.router, batch(&key, "partial", &many(101))).await;
    assert_eq!(
        pointers(&answer),
        [("#/items".to_owned(), "item_count_invalid".to_owned())]
    );
    let request = with(
        batch(&key, "partial", &many(1)),
        "idempotency-key",
        &used.to_string(),
    );
    assert_eq!(send(&app.router, request).await.problem(), "invalid_header");
    assert_eq!(app.count("LinkCreated").await, 0);
    let answer = send(&app.router, batch(&key, "partial", &many(100))).await;
    assert_eq!(statuses(&answer), [201; 100]);
}

#[tokio::test]
async fn only_batches_have_long_bodies() {
    let app = TestApp::start().await;
    let (_, key) = app.account(5).await;
    let body = json!({ "items": [{
        "idempotency_key": fresh_key().to_string(),
        "destination_url": "https://example.com/",
    }] });
    let padded = |length: usize| {
        let body = body.to_string();
        let space = " ".repeat(length - body.len());
        body + &space
    };
    let answer = send(&app.router, raw_batch(&key, padded(BODY_LENGTH_MAX))).await;
    assert_eq!(answer.status, 207, "{answer:?}");
    let long = || raw_batch(&key, padded(BODY_LENGTH_MAX + 1));
    let announced = with(long(), "content-length", "262145");
    for request in [long(), announced] {
        let answer = send(&app.router, request).await;
        assert_eq!(answer.problem(), "content_too_large");
        assert_eq!(answer.json()["detail"], "A body has at most 262144 bytes.");
    }
    let mut single = create(&key, fresh_key(), &destination());
    *single.body_mut() = Body::from(padded(32 * 1024 + 1));
    assert_eq!(
        send(&app.router, single).await.problem(),
        "content_too_large"
    );
}
