//! Requests at the same time at two services, and repeated requests: each key has one effect, and the limit holds.

use axum::{Router, http::StatusCode};
use futures::future::join_all;
use linkledger_core::{
    clock::{Clock as _, SystemClock},
    timestamp,
};
use serde_json::{Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Fixture, WEBHOOKS, assert_problem, creation};
use crate::support::{Answer, fresh_key};

/// Returns the end of the overlap of a rotation.
fn valid_until(rotated: &Answer) -> OffsetDateTime {
    let body = rotated.json();
    let text = body["previous_secret_valid_until"].as_str().unwrap();
    timestamp::parse(text).unwrap()
}

/// Sends the same request under each of the keys at once, to the two services by turns.
async fn at_once(
    fixture: &Fixture,
    other: &Router,
    (path, body): (&str, &Value),
    keys: impl IntoIterator<Item = Uuid>,
) -> Vec<Answer> {
    let routers = [&fixture.app.router, other].into_iter().cycle();
    let requests = keys.into_iter().zip(routers);
    let requests = requests.map(|(key, router)| fixture.once_to(router, path, key, body));
    join_all(requests).await
}

fn count(answers: &[Answer], status: u16) -> usize {
    let with_status = answers.iter().filter(|answer| answer.status == status);
    with_status.count()
}

/// Checks that one request had the effect, and that the others have its answer.
#[track_caller]
fn assert_one_effect(answers: &[Answer], status: StatusCode) {
    for answer in answers {
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.body, answers[0].body);
    }
    let first = |answer: &&Answer| answer.header("idempotent-replayed").is_empty();
    assert_eq!(answers.iter().filter(first).count(), 1);
}

#[tokio::test]
async fn webhooks_created_at_once_keep_the_limit() {
    let fixture = Fixture::new().await;
    let (other, _tasks) = fixture.app.another().await;
    let keys: Vec<Uuid> = (0..20).map(|_| fresh_key()).collect();
    let body = creation();
    let answers = at_once(&fixture, &other, (WEBHOOKS, &body), keys.clone()).await;
    assert_eq!((count(&answers, 201), count(&answers, 409)), (10, 10));
    for answer in &answers {
        if answer.status != 201 {
            assert_problem(answer, 409, "webhook_limit_reached");
        }
    }
    assert_eq!(fixture.app.count("WebhookCreated").await, 10);

    // A refusal leaves its key free, and a full account still replays.
    let again = at_once(&fixture, &other, (WEBHOOKS, &body), keys).await;
    let bodies = |answers: &[Answer]| -> Vec<Vec<u8>> {
        let created = answers.iter().filter(|answer| answer.status == 201);
        created.map(|answer| answer.body.clone()).collect()
    };
    assert_eq!(bodies(&again), bodies(&answers));
    assert_eq!(fixture.app.count("WebhookCreated").await, 10);
}

#[tokio::test]
async fn creations_at_once_with_one_key_make_one_webhook() {
    let fixture = Fixture::new().await;
    let (other, _tasks) = fixture.app.another().await;
    let keys = [fresh_key(); 8];
    let answers = at_once(&fixture, &other, (WEBHOOKS, &creation()), keys).await;
    assert_one_effect(&answers, StatusCode::CREATED);
    assert_eq!(fixture.app.count("WebhookCreated").await, 1);
}

#[tokio::test]
async fn rotations_at_once_with_one_key_rotate_once() {
    let fixture = Fixture::new().await;
    let (other, _tasks) = fixture.app.another().await;
    let rotate = format!("{}/rotate-secret", fixture.webhook().await);
    let keys = [fresh_key(); 2];
    let answers = at_once(&fixture, &other, (rotate.as_str(), &json!({})), keys).await;
    assert_one_effect(&answers, StatusCode::OK);
    assert_eq!(fixture.app.count("WebhookSecretRotated").await, 1);
    let payload = fixture.app.payload("WebhookSecretRotated").await;
    assert_eq!(payload["secret"]["generation"], 2);
}

#[tokio::test]
async fn creation_and_rotation_replay_after_the_deletion() {
    let fixture = Fixture::new().await;
    let (creation_key, rotation_key) = (fresh_key(), fresh_key());
    let created = fixture.once(WEBHOOKS, creation_key, &creation()).await;
    let path = created.header("location").to_owned();
    let rotate = format!("{path}/rotate-secret");
    let rotated = fixture.once(&rotate, rotation_key, &json!({})).await;
    let deleted = fixture.call("DELETE", &path, &Value::Null).await;
    assert_eq!(deleted.status, 204, "{deleted:?}");

    let created_again = fixture.once(WEBHOOKS, creation_key, &creation()).await;
    let rotated_again = fixture.once(&rotate, rotation_key, &json!({})).await;
    assert_one_effect(&[created, created_again], StatusCode::CREATED);
    assert_one_effect(&[rotated, rotated_again], StatusCode::OK);
    assert_eq!(fixture.app.count("WebhookCreated").await, 1);
    let new = fixture.once(&rotate, fresh_key(), &json!({})).await;
    assert_problem(&new, 404, "webhook_not_found");
}

#[tokio::test]
async fn secret_of_a_removed_master_key_is_replaced() {
    let fixture = Fixture::new().await;
    let key = fresh_key();
    let created = fixture.once(WEBHOOKS, key, &creation()).await;
    let rotate = format!("{}/rotate-secret", created.header("location"));
    let (other, _tasks) = fixture.app.with_other_master_keys().await;

    let repeated = fixture.once_to(&other, WEBHOOKS, key, &creation()).await;
    assert_problem(&repeated, 503, "webhooks_off");
    let detail =
        "The master key `test` of this secret is not in WEBHOOK_KEYS_FILE: rotate the secret.";
    assert_eq!(repeated.json()["detail"], detail);

    // Nothing can sign with the secret before, so there is no overlap.
    let rotated = fixture
        .once_to(&other, &rotate, fresh_key(), &json!({}))
        .await;
    assert_eq!(rotated.status, 200, "{rotated:?}");
    assert!(valid_until(&rotated) <= SystemClock.now(), "{rotated:?}");
    let payload = fixture.app.payload("WebhookSecretRotated").await;
    assert_eq!(payload["secret"]["master_key_id"], "other");
    assert_ne!(rotated.json()["secret"], created.json()["secret"]);

    let overlap = json!({ "overlap_hours": 1 });
    let rotated = fixture
        .once_to(&other, &rotate, fresh_key(), &overlap)
        .await;
    assert!(valid_until(&rotated) > SystemClock.now(), "{rotated:?}");
}
