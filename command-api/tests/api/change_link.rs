use linkledger_core::{api_key::ApiKey, consistency::ConsistencyToken, id::AccountId};
use linkledger_http::link_request::LinkCreate;
use serde_json::{Value, json};

use crate::support::{Answer, TestApp, change, create, delete, fresh_key, link, send, with};

fn to(destination: &str) -> Value {
    json!({ "destination_url": destination })
}

fn position(answer: &Answer, account_id: AccountId) -> i64 {
    let token = ConsistencyToken::decode(answer.header("consistency-token"), account_id);
    token.expect("a token").position
}

#[tokio::test]
async fn change_returns_link_and_new_etag() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(1).await;
    let body = LinkCreate::example();
    let created = send(&app.router, create(&key, fresh_key(), &body)).await;
    let link = created.json();
    let id = link["id"].as_str().unwrap();
    let patch = change(&key, id, &to("HTTPS://example.com/new?x=1"));
    let answer = send(&app.router, with(patch, "if-match", "\"1\"")).await;

    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert_eq!(answer.header("etag"), "\"2\"");
    assert!(position(&answer, account_id) > position(&created, account_id));
    let mut expected = link.clone();
    expected["destination_url"] = "https://example.com/new?x=1".into();
    for name in ["credits_charged", "credits_balance"] {
        expected.as_object_mut().unwrap().remove(name);
    }
    assert_eq!(answer.json(), expected);
    let event = json!({
        "link_id": id,
        "account_id": account_id.to_string(),
        "destination_url": "https://example.com/new?x=1",
        "previous_destination_url": body["destination_url"],
    });
    assert_eq!(app.payload("LinkDestinationChanged").await, event);
    assert_eq!(app.balance(account_id).await, 0, "a change costs nothing");
}

#[tokio::test]
async fn change_to_same_destination_appends_nothing() {
    let app = TestApp::start().await;
    let (account_id, key) = app.account(1).await;
    let id = app.link(&key).await;
    let first = send(&app.router, change(&key, &id, &to("https://a.com"))).await;
    for body in [to("https://A.com"), json!({})] {
        let again = send(&app.router, change(&key, &id, &body)).await;
        assert_eq!(
            (again.status.as_u16(), again.header("etag")),
            (200, "\"2\"")
        );
        assert_eq!(again.body, first.body);
        // The token of the latest event, so that a read with the token returns the current link.
        assert_eq!(position(&again, account_id), position(&first, account_id));
    }
    assert_eq!(app.count("LinkDestinationChanged").await, 1);
}

#[tokio::test]
async fn unusable_if_match_returns_current_etag() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let id = app.link(&key).await;
    send(&app.router, change(&key, &id, &to("https://a.com"))).await;
    for if_match in ["\"1\"", "W/\"2\"", "\"x\""] {
        // The same for a change without effect.
        for body in [to("https://b.com"), to("https://a.com")] {
            let patch = change(&key, &id, &body);
            let answer = send(&app.router, with(patch, "if-match", if_match)).await;
            assert_eq!(answer.status, 412, "{if_match}");
            assert_eq!(answer.problem(), "etag_mismatch");
            assert_eq!(answer.header("etag"), "\"2\"");
        }
        let answer = send(&app.router, with(delete(&key, &id), "if-match", if_match)).await;
        assert_eq!(answer.problem(), "etag_mismatch", "{if_match}");
    }
    for (if_match, etag) in [("\"9\", \"2\"", "\"3\""), ("*", "\"4\"")] {
        let body = to(&format!("https://b.com/{}", etag.len() + if_match.len()));
        let patch = with(change(&key, &id, &body), "if-match", if_match);
        let answer = send(&app.router, patch).await;
        assert_eq!((answer.status.as_u16(), answer.header("etag")), (200, etag));
    }
}

#[tokio::test]
async fn if_match_without_quotes_is_rejected() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let id = app.link(&key).await;
    for if_match in ["1", "", "\"1", "\"1\", 2"] {
        let patch = change(&key, &id, &to("https://b.com"));
        for request in [patch, delete(&key, &id)] {
            let answer = send(&app.router, with(request, "if-match", if_match)).await;
            assert_eq!(answer.status, 400, "{if_match}");
            assert_eq!(answer.problem(), "invalid_header", "{if_match}");
            let error = &answer.json()["errors"][0];
            assert_eq!(error["header"], "If-Match", "{if_match}");
            let detail = error["detail"].as_str().unwrap();
            assert!(detail.contains("quotes"), "{detail}");
        }
    }
    assert_eq!(app.count("LinkDestinationChanged").await, 0);
    assert_eq!(app.count("LinkDeleted").await, 0);
}

#[tokio::test]
async fn slug_in_place_of_id_names_the_search() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    send(&app.router, create(&key, fresh_key(), &link("spring-sale"))).await;
    for slug in ["spring-sale", "no-sale"] {
        let patch = change(&key, slug, &to("https://b.com"));
        for request in [patch, delete(&key, slug)] {
            let answer = send(&app.router, request).await;
            assert_eq!(answer.problem(), "link_not_found", "{slug}");
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            let search = format!("GET /v1/links?slug={slug} ");
            assert!(detail.contains(&search), "{detail}");
        }
    }
    // The body is checked before the id.
    let answer = send(&app.router, change(&key, "spring-sale", &to("ftp://b.com"))).await;
    assert_eq!(answer.problem(), "validation_failed");
}

#[tokio::test]
async fn invalid_patch_lists_all_errors() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let id = app.link(&key).await;
    let body = json!({ "slug": "other", "notes": "x", "destination_url": "ftp://a.com" });
    let answer = send(&app.router, change(&key, &id, &body)).await;
    assert_eq!(
        (answer.status.as_u16(), answer.problem()),
        (422, "validation_failed".to_owned())
    );
    let errors: Vec<(String, String)> = answer.json()["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| (error["pointer"].to_string(), error["code"].to_string()))
        .collect();
    let expected = [
        ("#/destination_url", "url_scheme_not_allowed"),
        ("#/notes", "unknown_field"),
        ("#/slug", "field_not_mutable"),
    ];
    let quoted = |text: &str| format!("\"{text}\"");
    assert_eq!(errors, expected.map(|(p, c)| (quoted(p), quoted(c))));
}

#[tokio::test]
async fn patch_accepts_json_and_merge_patch_only() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let id = app.link(&key).await;
    for (media_type, status) in [
        ("application/merge-patch+json", 200),
        ("application/json; charset=utf-8", 200),
        ("application/json-patch+json", 415),
        ("text/plain", 415),
    ] {
        let mut patch = change(&key, &id, &to("https://a.com"));
        patch
            .headers_mut()
            .insert("content-type", media_type.parse().unwrap());
        assert_eq!(
            send(&app.router, patch).await.status,
            status,
            "{media_type}"
        );
    }
}

/// Returns the answers to concurrent changes.
async fn race(app: &TestApp, key: &ApiKey, id: &str, if_match: Option<&str>) -> Vec<Answer> {
    let changes = (0..50).map(|n| {
        let patch = change(key, id, &to(&format!("https://example.com/{n}")));
        let patch = match if_match {
            Some(if_match) => with(patch, "if-match", if_match),
            None => patch,
        };
        send(&app.router, patch)
    });
    futures::future::join_all(changes).await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_concurrent_change_per_version_wins() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let id = app.link(&key).await;
    let answers = race(&app, &key, &id, Some("\"1\"")).await;
    let won = answers.iter().filter(|answer| answer.status == 200).count();
    let lost = answers.iter().filter(|answer| answer.status == 412).count();
    assert_eq!((won, lost), (1, 49));
    assert_eq!(app.count("LinkDestinationChanged").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_without_if_match_all_succeed() {
    let app = TestApp::start().await;
    let (_, key) = app.account(1).await;
    let id = app.link(&key).await;
    let answers = race(&app, &key, &id, None).await;
    let mut etags: Vec<_> = answers.iter().map(|it| it.header("etag")).collect();
    etags.sort_by_key(|etag| (etag.len(), *etag));
    let expected: Vec<_> = (2..=51).map(|version| format!("\"{version}\"")).collect();
    assert_eq!(etags, expected);
    // Each event names the destination before: no change was lost.
    let unlinked: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM event_store.events AS e
         JOIN event_store.events AS before ON before.stream_id = e.stream_id
             AND before.version = e.version - 1
         WHERE e.type = 'LinkDestinationChanged'
           AND e.payload->>'previous_destination_url' <> before.payload->>'destination_url'",
    )
    .fetch_one(app.database.pool())
    .await
    .unwrap();
    assert_eq!(unlinked, 0);
}
