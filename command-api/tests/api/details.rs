//! Details of links: on create, in patches, external ids.

use futures::future::join_all;
use linkledger_core::id::LinkId;
use linkledger_http::link_request::LinkCreate;
use serde_json::{Value, json};

use crate::{
    create_links::batch,
    support::{Answer, TestApp, change, create, delete, destination, fresh_key, send, with},
};

const DETAILS: [&str; 5] = ["title", "external_id", "tags", "expires_at", "expired_url"];

fn with_id(external_id: &str) -> Value {
    json!({ "destination_url": "https://example.com/", "external_id": external_id })
}

fn outcome(answer: &Answer) -> (u16, String) {
    let body = answer.json();
    let code = body["errors"][0]["code"].as_str().or(body["code"].as_str());
    (answer.status.as_u16(), code.unwrap_or_default().to_owned())
}

#[tokio::test]
async fn link_without_details_has_no_members_for_them() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(1).await;
    let body = json!({ "destination_url": "https://example.com/", "slug": "spring" });
    let created = send(&app.router, create(&key, fresh_key(), &body)).await;
    assert_eq!(created.json().as_object().unwrap().len(), 6);
    let id = created.json()["id"].as_str().unwrap().to_owned();
    let row: (String, String) = sqlx::query_as(
        "SELECT payload::text, metadata->>'renderer' FROM event_store.events WHERE version = 1 AND type = 'LinkCreated'",
    )
    .fetch_one(app.database.pool())
    .await
    .unwrap();
    let payload = format!(
        r#"{{"link_id":"{id}","account_id":"{account_id}","slug":"spring","short_url":"https://sho.rt/spring","destination_url":"https://example.com/"}}"#
    );
    assert_eq!(row, (payload, "1".to_owned()));
}

#[tokio::test]
async fn details_are_changed_and_removed_by_a_patch() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let created = send(
        &app.router,
        create(&key, fresh_key(), &LinkCreate::example()),
    )
    .await;
    let id = created.json()["id"].as_str().unwrap().to_owned();
    let patch = json!({
        "destination_url": "https://example.com/new", "title": "\u{202e}Ümläut 😀",
        "tags": ["z", "a"], "external_id": null,
    });
    let answer = send(&app.router, change(&key, &id, &patch)).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("etag")),
        (200, "\"3\"")
    );
    let link = answer.json();
    assert_eq!(link["title"], patch["title"]);
    assert_eq!(link["tags"], json!(["a", "z"]));
    assert_eq!(link.get("external_id"), None);
    let event = app.payload("LinkDetailsChanged").await;
    let expected = json!({
        "title": { "from": "Spring offers", "to": patch["title"] },
        "external_id": { "from": "offers/2026-spring" },
        "tags": { "from": ["offers", "spring"], "to": ["a", "z"] },
    });
    assert_eq!(event["changes"], expected);
    let same = json!({ "title": patch["title"], "tags": ["a", "z"] });
    let again = send(&app.router, change(&key, &id, &same)).await;
    assert_eq!(again.header("etag"), "\"3\"");

    let nothing: Value = DETAILS
        .iter()
        .map(|name| ((*name).to_owned(), Value::Null))
        .collect();
    let bare = send(&app.router, change(&key, &id, &nothing)).await;
    assert_eq!(bare.json().as_object().unwrap().len(), 4);
    assert_eq!(app.count("LinkDetailsChanged").await, 2);
}

#[tokio::test]
async fn replay_returns_the_details_of_the_create() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let idempotency_key = fresh_key();
    let request = || create(&key, idempotency_key, &LinkCreate::example());
    let created = send(&app.router, request()).await;
    let id = created.json()["id"].as_str().unwrap().to_owned();
    send(&app.router, change(&key, &id, &json!({ "title": "other" }))).await;
    assert_eq!(send(&app.router, request()).await.body, created.body);
}

#[tokio::test]
async fn expiry_is_judged_after_existence_and_precondition() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let id = app.link(&key).await;
    let past = json!({ "expires_at": "2001-01-01T00:00:00Z" });
    let in_the_past = (422, "expires_at_in_the_past".to_owned());
    let answer = send(&app.router, change(&key, &id, &past)).await;
    assert_eq!(outcome(&answer), in_the_past);
    let stale = with(change(&key, &id, &past), "if-match", "\"7\"");
    assert_eq!(send(&app.router, stale).await.status, 412);
    let other = LinkId::from_uuid(fresh_key()).to_string();
    assert_eq!(
        send(&app.router, change(&key, &other, &past)).await.status,
        404
    );
    let mut new = past.clone();
    new["destination_url"] = "https://example.com/".into();
    new["slug"] = "spring".into();
    let answer = send(&app.router, create(&key, fresh_key(), &new)).await;
    assert_eq!(outcome(&answer), in_the_past);
    let slugs: i64 =
        sqlx::query_scalar("SELECT count(*) FROM event_store.slugs WHERE slug_key = 'spring'")
            .fetch_one(app.database.pool())
            .await
            .unwrap();
    assert_eq!(slugs, 0, "a refused create reserves no slug");
}

#[tokio::test]
async fn external_id_is_unique_until_its_link_is_deleted() {
    let app = TestApp::start().await;
    let (_, key) = app.account(9).await;
    let (_, other) = app.account(9).await;
    let new = |key, id| create(key, fresh_key(), &with_id(id));
    let first = send(&app.router, new(&key, "crm:1")).await;
    assert_eq!(first.status, 201);
    let taken = (409, "external_id_taken".to_owned());
    let refused = send(&app.router, new(&key, "crm:1")).await;
    assert_eq!(outcome(&refused), taken);
    let holder = first.json()["id"].as_str().unwrap().to_owned();
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.starts_with(&format!("The link {holder} has")),
        "{detail}"
    );
    assert_eq!(send(&app.router, new(&key, "CRM:1")).await.status, 201);
    assert_eq!(send(&app.router, new(&other, "crm:1")).await.status, 201);

    let id = first.json()["id"].as_str().unwrap().to_owned();
    let second = app.link(&key).await;
    let take = || change(&key, &second, &json!({ "external_id": "crm:1" }));
    assert_eq!(outcome(&send(&app.router, take()).await), taken);
    assert_eq!(send(&app.router, delete(&key, &id)).await.status, 204);
    assert_eq!(send(&app.router, take()).await.status, 200);
    assert_eq!(outcome(&send(&app.router, new(&key, "crm:1")).await), taken);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_concurrent_creates_gets_the_external_id() {
    let app = TestApp::start().await;
    let (another, _tasks) = app.another().await;
    let (account_id, key) = app.account(50).await;
    let creates = (0..20).map(|number| {
        let router = if number % 2 == 0 {
            &app.router
        } else {
            &another
        };
        send(router, create(&key, fresh_key(), &with_id("crm:1")))
    });
    let answers = join_all(creates).await;
    let won = answers.iter().filter(|answer| answer.status == 201).count();
    let lost = answers.iter().filter(|answer| answer.status == 409).count();
    assert_eq!((won, lost), (1, 19));
    assert_eq!(app.balance(account_id).await, 49);
}

#[tokio::test]
async fn items_of_a_batch_carry_details() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(9).await;
    let mut invalid = with_id("crm:2");
    invalid["tags"] = json!(["a", "b,c"]);
    let bodies = [
        LinkCreate::example(),
        with_id("crm:1"),
        invalid,
        with_id("crm:1"),
    ];
    let items: Vec<_> = bodies.into_iter().map(|body| (fresh_key(), body)).collect();

    let valid = [&items[0], &items[1], &items[3]].map(Clone::clone);
    let refused = send(&app.router, batch(&key, "atomic", &valid)).await;
    assert_eq!(outcome(&refused), (409, "external_id_taken".to_owned()));
    assert_eq!(
        refused.json()["errors"][0]["pointer"],
        "#/items/2/external_id"
    );
    let detail = refused.json()["errors"][0]["detail"].to_string();
    assert!(detail.starts_with("\"An earlier item has"), "{detail}");
    let refused = send(&app.router, batch(&key, "atomic", &items)).await;
    assert_eq!(outcome(&refused), (422, "tag_invalid".to_owned()));
    assert_eq!(refused.json()["errors"][0]["pointer"], "#/items/2/tags/1");
    assert_eq!(app.count("LinkCreated").await, 0);

    for mode in ["dry_run", "partial"] {
        let answer = send(&app.router, batch(&key, mode, &items)).await.json();
        let answers = answer["items"].as_array().unwrap();
        let codes: Vec<&Value> = answers
            .iter()
            .map(|item| &item["problem"]["code"])
            .collect();
        let expected = json!([null, null, "validation_failed", "external_id_taken"]);
        assert_eq!(json!(codes), expected, "{mode}");
        for detail in DETAILS {
            assert_eq!(
                answers[0]["link"][detail],
                LinkCreate::example()[detail],
                "{mode}"
            );
        }
        assert_eq!(answers[1]["link"].get("title"), None);
    }
    assert_eq!(app.count("LinkCreated").await, 2);
    assert_eq!(app.balance(account_id).await, 7);
    let atomic = [
        (fresh_key(), with_id("crm:3")),
        (fresh_key(), with_id("crm:4")),
    ];
    let created = send(&app.router, batch(&key, "atomic", &atomic)).await;
    assert_eq!(created.json()["items"][1]["link"]["external_id"], "crm:4");
    let again = send(&app.router, create(&key, fresh_key(), &with_id("crm:4"))).await;
    assert_eq!(outcome(&again), (409, "external_id_taken".to_owned()));
}

#[tokio::test]
async fn tags_are_kept_in_their_normal_form() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let body = |tags: Value| {
        let mut body = destination();
        body["tags"] = tags;
        body
    };
    let mut many: Vec<String> = (0..18).map(|number| format!("t{number}")).collect();
    many.extend(["VIP", "vip ", "Su\u{308}d \u{a0}Ost"].map(str::to_owned));
    let created = send(&app.router, create(&key, fresh_key(), &body(json!(many)))).await;
    assert_eq!(created.status, 201, "{created:?}");
    let tags = &app.payload("LinkCreated").await["tags"];
    assert_eq!(&created.json()["tags"], tags);
    assert_eq!(
        (&tags[0], &tags[19]),
        (&json!("s\u{fc}d ost"), &json!("vip"))
    );
    many.push("one more".to_owned());
    let refused = send(&app.router, create(&key, fresh_key(), &body(json!(many)))).await;
    assert_eq!(outcome(&refused), (422, "too_many_tags".to_owned()));
}
