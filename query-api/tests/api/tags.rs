use linkledger_core::id::LinkId;
use serde_json::{Value, json};
use url::form_urlencoded::byte_serialize;
use uuid::Uuid;

use crate::{
    read_tables::insert_tag,
    service::{TestCaller, TestService},
};

/// Returns a service, and an account with the tags `a`, `a ü`, `a.b`, `b:1` and `c`, of which `b:1` has two links.
async fn service_with_tags() -> (TestService, TestCaller) {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    let links = [1, 2].map(|number| LinkId::from_uuid(Uuid::from_u128(number)));
    for tag in ["c", "a.b", "a", "b:1", "a \u{fc}"] {
        insert_tag(service.pool(), caller.account_id, tag, links[0]).await;
    }
    insert_tag(service.pool(), caller.account_id, "b:1", links[1]).await;
    for tag in ["0", "b:1", "z"] {
        insert_tag(service.pool(), other.account_id, tag, links[0]).await;
    }
    (service, caller)
}

fn tag(tag: &str, links: u64) -> Value {
    json!({ "tag": tag, "links": links })
}

#[tokio::test]
async fn tags_of_the_account_are_listed_with_links() {
    let (service, caller) = service_with_tags().await;
    let page = service.get(&caller, "/v1/tags").await;
    assert_eq!(page.status, 200);
    let tags = [
        tag("a", 1),
        tag("a \u{fc}", 1),
        tag("a.b", 1),
        tag("b:1", 2),
        tag("c", 1),
    ];
    let expected = json!({ "items": tags, "next_cursor": null, "has_more": false });
    assert_eq!(page.json(), expected);
    assert!(page.headers.get("link").is_none());
}

#[tokio::test]
async fn pages_of_tags_continue_after_the_cursor() {
    let (service, caller) = service_with_tags().await;
    for limit in [1, 2, 4, 5] {
        let mut tags = Vec::new();
        let mut path = format!("/v1/tags?limit={limit}");
        loop {
            let answer = service.get(&caller, &path).await;
            let page = answer.json();
            let items = page["items"].as_array().unwrap();
            tags.extend(
                items
                    .iter()
                    .map(|item| item["tag"].as_str().unwrap().to_owned()),
            );
            assert_eq!(page["has_more"], !page["next_cursor"].is_null());
            let Some(cursor) = page["next_cursor"].as_str() else {
                break;
            };
            let cursor: String = byte_serialize(cursor.as_bytes()).collect();
            path = format!("/v1/tags?limit={limit}&cursor={cursor}");
            let link = answer.headers["link"].to_str().unwrap();
            assert!(link.contains(&format!("{path}>")), "{link}");
        }
        assert_eq!(tags, ["a", "a \u{fc}", "a.b", "b:1", "c"], "{limit}");
    }
}

#[tokio::test]
async fn account_without_tags_has_an_empty_page() {
    let (service, _) = service_with_tags().await;
    let caller = service.caller().await;
    let page = service.get(&caller, "/v1/tags").await.json();
    let empty = json!({ "items": [], "next_cursor": null, "has_more": false });
    assert_eq!(page, empty);
}

#[tokio::test]
async fn tag_instead_of_a_cursor_is_invalid() {
    let (service, caller) = service_with_tags().await;
    for cursor in ["", "a", "a-b", "-a", "a%20b", "%C3%A9", &"a".repeat(64)] {
        let path = format!("/v1/tags?cursor={cursor}");
        let answer = service.get(&caller, &path).await;
        answer.assert_problem(400, "invalid_cursor");
    }
}

#[tokio::test]
async fn links_of_a_tag_are_counted_up_to_10000() {
    let (service, caller) = service_with_tags().await;
    sqlx::query(
        "INSERT INTO read_model.link_tags
         SELECT 1, $1, 'many', gen_random_uuid() FROM generate_series(1, 10001)",
    )
    .bind(caller.account_id.uuid())
    .execute(service.pool())
    .await
    .unwrap();
    let page = service.get(&caller, "/v1/tags").await.json();
    assert_eq!(page["items"][5], tag("many", 10_000));
}
