//! `POST /v1/links/batch`: the three modes.

mod faults;
mod limits;
mod request;

use axum::{body::Body, http::Request};
use linkledger_core::api_key::ApiKey;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, TestApp, create, destination, fresh_key, link, send};

/// Returns a request with the body.
fn raw_batch(key: &ApiKey, body: String) -> Request<Body> {
    Request::post("/v1/links/batch")
        .header("host", "api.sho.rt")
        .header("authorization", format!("Bearer {}", key.reveal()))
        .header("content-type", "application/json")
        .body(Body::from(body))
        .unwrap()
}

/// Returns a valid batch of these items.
pub(crate) fn batch(key: &ApiKey, mode: &str, items: &[(Uuid, Value)]) -> Request<Body> {
    for (idempotency_key, body) in items {
        linkledger_testing::record::create(&idempotency_key.to_string(), body);
    }
    let items = items.iter().map(|(idempotency_key, body)| {
        let mut item = body.clone();
        item["idempotency_key"] = idempotency_key.to_string().into();
        item
    });
    let items: Vec<Value> = items.collect();
    raw_batch(key, json!({ "mode": mode, "items": items }).to_string())
}

fn items<const N: usize>(bodies: [Value; N]) -> Vec<(Uuid, Value)> {
    bodies.into_iter().map(|body| (fresh_key(), body)).collect()
}

fn statuses(answer: &Answer) -> Vec<u64> {
    let body = answer.json();
    let items = body["items"].as_array().unwrap().iter();
    items.map(|item| item["status"].as_u64().unwrap()).collect()
}

fn codes(answer: &Answer) -> Vec<String> {
    let body = answer.json();
    let items = body["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            item["problem"]["code"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

fn pointers(answer: &Answer) -> Vec<(String, String)> {
    let body = answer.json();
    let errors = body["errors"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    errors
        .map(|error| (text(&error["pointer"]), text(&error["code"])))
        .collect()
}

#[tokio::test]
async fn partial_batch_decides_items_like_creates() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(3).await;
    let taken = send(&app.router, create(&key, fresh_key(), &link("taken"))).await;
    assert_eq!(taken.status, 201);
    let items = items([
        link("spring"),
        json!({ "destination_url": "ftp://example.com/", "slug": "summer" }),
        link("TAKEN"),
        destination(),
        link("autumn"),
        link("SPRING"),
    ]);
    let answer = send(&app.router, batch(&key, "partial", &items)).await;
    assert_eq!(answer.status, 207, "{answer:?}");
    assert_eq!(statuses(&answer), [201, 422, 409, 201, 402, 409]);
    let expected = [
        "",
        "validation_failed",
        "slug_taken",
        "",
        "insufficient_credits",
        "slug_taken",
    ];
    assert_eq!(codes(&answer), expected);
    let body = answer.json();
    assert_eq!(body["credits_charged"], 2);
    assert_eq!(body["credits_balance"], 0);
    assert_eq!(app.balance(account_id).await, 0);
    assert_eq!(app.count("LinkCreated").await, 3);
    let problem = &body["items"][1]["problem"];
    assert_eq!(problem["errors"][0]["pointer"], "#/destination_url");
    assert_eq!(problem["request_id"], answer.header("x-request-id"));

    // Again, at balance 0: what is done is replayed, to the byte, alone and in a batch.
    let again = send(&app.router, batch(&key, "partial", &items)).await;
    assert_eq!(statuses(&again), [201, 422, 409, 201, 402, 409]);
    let body = again.json();
    assert_eq!(body["items"][0]["replayed"], true);
    assert_eq!(body["credits_charged"], 0);
    assert_eq!(body["credits_balance"], 0);
    assert_eq!(
        again.header("consistency-token"),
        answer.header("consistency-token")
    );
    for index in [0, 3] {
        let (idempotency_key, body) = &items[index];
        let single = send(&app.router, create(&key, *idempotency_key, body)).await;
        assert_eq!(single.header("idempotent-replayed"), "true");
        let text = String::from_utf8(single.body.clone()).unwrap();
        assert!(
            String::from_utf8(answer.body.clone())
                .unwrap()
                .contains(&text)
        );
        // The token is that of the highest position.
        let is_last = single.header("consistency-token") == answer.header("consistency-token");
        assert_eq!(is_last, index == 3);
    }
}

#[tokio::test]
async fn key_of_single_create_replays_in_batch() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(5).await;
    let used = fresh_key();
    let first = send(&app.router, create(&key, used, &link("Spring"))).await;
    let body = format!(
        r#"{{"items":[{{"slug":"Sp\u0072ing","idempotency_key":"{}","destination_url":"https:\/\/example.com/"}}]}}"#,
        used.to_string().to_uppercase()
    );
    let answer = send(&app.router, raw_batch(&key, body)).await;
    assert_eq!(answer.status, 207, "{answer:?}");
    let item = &answer.json()["items"][0];
    assert_eq!(
        (&item["status"], &item["replayed"]),
        (&json!(201), &json!(true))
    );
    assert_eq!(item["link"], first.json());
    assert_eq!(
        answer.header("consistency-token"),
        first.header("consistency-token")
    );
    let other = send(
        &app.router,
        batch(&key, "partial", &[(used, link("other"))]),
    )
    .await;
    assert_eq!(codes(&other), ["idempotency_key_reused"]);
    assert!(!other.headers.contains_key("consistency-token"));
    assert_eq!(app.balance(account_id).await, 4);
}

#[tokio::test]
async fn atomic_batch_creates_all_or_nothing() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(3).await;
    let whole = items([link("spring"), destination()]);
    let answer = send(&app.router, batch(&key, "atomic", &whole)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(statuses(&answer), [201, 201]);
    assert_eq!(answer.json()["credits_charged"], 2);
    assert_eq!(answer.json()["credits_balance"], 1);
    let again = send(&app.router, batch(&key, "atomic", &whole)).await;
    assert_eq!(again.status, 201);
    assert_eq!(again.json()["items"][1]["replayed"], true);
    assert_eq!(again.json()["credits_charged"], 0);
    assert_eq!(
        again.header("consistency-token"),
        answer.header("consistency-token")
    );

    let bad = json!({ "destination_url": "ftp://example.com/", "slug": "a b" });
    let no_problem = destination;
    for (items, status, code, expected) in [
        (
            items([no_problem(), bad, link("spring")]),
            422,
            "validation_failed",
            vec![
                ("#/items/1/destination_url", "url_scheme_not_allowed"),
                ("#/items/1/slug", "slug_invalid_character"),
            ],
        ),
        (
            items([link("summer"), link("SPRING"), link("Summer"), no_problem()]),
            409,
            "slug_taken",
            vec![
                ("#/items/1/slug", "slug_taken"),
                ("#/items/2/slug", "slug_taken"),
            ],
        ),
        (
            items([no_problem(), no_problem(), link("summer")]),
            402,
            "insufficient_credits",
            vec![
                ("#/items/1", "insufficient_credits"),
                ("#/items/2", "insufficient_credits"),
            ],
        ),
        (
            vec![(fresh_key(), no_problem()), whole[1].clone()],
            422,
            "idempotency_key_reused",
            vec![("#/items/1/idempotency_key", "idempotency_key_reused")],
        ),
    ] {
        let answer = send(&app.router, batch(&key, "atomic", &items)).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.problem(), code);
        let expected = expected.into_iter();
        let expected = expected.map(|(pointer, code)| (pointer.to_owned(), code.to_owned()));
        assert_eq!(pointers(&answer), expected.collect::<Vec<_>>());
        if status == 402 {
            assert_eq!(answer.json()["required"], 3);
            assert_eq!(answer.json()["balance"], 1);
        }
    }
    assert_eq!(app.count("LinkCreated").await, 2);
    assert_eq!(app.balance(account_id).await, 1);
    // The slugs of refused requests stay free.
    let summer = send(&app.router, create(&key, fresh_key(), &link("summer"))).await;
    assert_eq!(summer.status, 201);
}

#[tokio::test]
async fn dry_run_has_outcomes_and_no_effect() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(3).await;
    let done = (fresh_key(), link("taken"));
    let first = send(&app.router, create(&key, done.0, &done.1)).await;
    let mut items = items([link("spring"), destination(), link("taken"), destination()]);
    items.push(done);
    let answer = send(&app.router, batch(&key, "dry_run", &items)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(statuses(&answer), [201, 201, 409, 402, 201]);
    let body = answer.json();
    assert_eq!(body["credits_charged"], 2);
    assert_eq!(body["credits_balance"], 0);
    let expected = json!({
        "short_url": "https://sho.rt/spring",
        "destination_url": "https://example.com/",
        "credits_charged": 1,
        "credits_balance": 1,
    });
    assert_eq!(body["items"][0]["link"], expected);
    assert!(body["items"][1]["link"].get("short_url").is_none());
    assert_eq!(body["items"][4]["replayed"], true);
    assert_eq!(body["items"][4]["link"], first.json());
    assert_eq!(app.count("LinkCreated").await, 1);
    assert_eq!(app.balance(account_id).await, 2);
    // Neither keys nor slugs are used.
    let answer = send(&app.router, batch(&key, "partial", &items[..2])).await;
    assert_eq!(statuses(&answer), [201, 201]);
    assert_eq!(answer.json()["items"][0]["replayed"], false);
}

#[tokio::test]
async fn accounts_share_no_keys_and_no_credits() {
    let app = TestApp::start().await;
    let (_, one) = app.account(2).await;
    let (other_id, other) = app.account(2).await;
    let items = items([link("spring"), destination()]);
    let answer = send(&app.router, batch(&one, "atomic", &items)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let foreign = send(&app.router, batch(&other, "atomic", &items)).await;
    assert_eq!(foreign.problem(), "slug_taken");
    let foreign = send(&app.router, batch(&other, "partial", &items)).await;
    assert_eq!(statuses(&foreign), [409, 201]);
    let body = foreign.json();
    assert_eq!(body["items"][1]["replayed"], false);
    assert_ne!(
        body["items"][1]["link"]["id"],
        answer.json()["items"][1]["link"]["id"]
    );
    assert_eq!(app.balance(other_id).await, 1);
}
