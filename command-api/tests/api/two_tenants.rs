//! An account cannot change resources of another account, nor learn that they exist.

use axum::{body::Body, http::Request};
use linkledger_core::{api_key::ApiKey, id::LinkId};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Answer, TestApp, change, delete, send, with};

/// Returns the body without the request id.
fn anonymous(answer: &Answer) -> Value {
    let mut body = answer.json();
    let members = body.as_object_mut().unwrap();
    assert!(members.remove("request_id").is_some() && members.remove("instance").is_some());
    body
}

type Attempt = fn(&ApiKey, &str) -> Request<Body>;

const ATTEMPTS: [(&str, Attempt); 4] = [
    ("change", |key, id| {
        change(key, id, &json!({ "destination_url": "https://evil.com" }))
    }),
    ("change for a version", |key, id| {
        with(change(key, id, &json!({})), "if-match", "\"9\"")
    }),
    ("delete", delete),
    ("delete for a version", |key, id| {
        with(delete(key, id), "if-match", "\"9\"")
    }),
];

#[tokio::test]
async fn foreign_link_is_answered_as_unknown() {
    let app = TestApp::start().await;
    let (_, owner) = app.account(2).await;
    let (stranger_id, stranger) = app.account(0).await;
    let id = app.link(&owner).await;
    let deleted = app.link(&owner).await;
    send(&app.router, delete(&owner, &deleted)).await;
    let unknown = LinkId::from_uuid(Uuid::from_u128(7)).to_string();
    // The stream of an account is no link.
    let account = LinkId::from_uuid(stranger_id.uuid()).to_string();
    let [upper, encoded] = [id.to_uppercase(), id.replace('_', "%5F")];

    for (name, attempt) in ATTEMPTS {
        let expected = send(&app.router, attempt(&stranger, &unknown)).await;
        assert_eq!(expected.problem(), "link_not_found", "{name}");
        for id in [&id, &deleted, &account, &upper, &encoded, "lnk_x", "lnk_"] {
            let answer = send(&app.router, attempt(&stranger, id)).await;
            assert_eq!(anonymous(&answer), anonymous(&expected), "{name} {id}");
            assert_eq!(answer.headers.len(), expected.headers.len(), "{name} {id}");
        }
    }
    assert_eq!(app.count("LinkDeleted").await, 1);
    assert_eq!(app.count("LinkDestinationChanged").await, 0);
}
