//! A link from its creation to its deletion: changed by its owner and disabled by the operator, seen
//! through the ingress and the short host.

use linkledger_command_api::admin::{Author, Request, account, link};
use linkledger_core::{clock::SystemClock, id::LinkId, link::LinkName};
use linkledger_event_store::{SessionKind, links};
use linkledger_testing::eventually;
use serde_json::json;
use sqlx::PgPool;

use crate::{
    http::{Answer, Http},
    process::{Stack, data_folder},
};

/// Waits until the short host answers with this status and location, and returns the response.
async fn followed(http: &Http, short_url: &str, expected: (u16, &str)) -> Answer {
    eventually("the short host follows the change", || async {
        let answer = http.follow(short_url).await;
        let is_as_expected = answer.status == expected.0 && answer.header("location") == expected.1;
        is_as_expected.then_some(answer)
    })
    .await
}

async fn read_with_token(http: &Http, id: &str, write: &Answer) -> Answer {
    let token = ("consistency-token", write.header("consistency-token"));
    let path = format!("/v1/links/{id}");
    http.request("GET", &path, &[token], None).await
}

#[tokio::test]
async fn link_is_changed_disabled_enabled_and_deleted() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let http = stack.http();
    let body = json!({ "destination_url": "https://example.com/old", "slug": "Spring" });
    let created = http
        .create("00000000-0000-4000-8000-000000000001", &body)
        .await;
    let link = created.json();
    let (id, short_url) = (
        link["id"].as_str().unwrap(),
        link["short_url"].as_str().unwrap(),
    );
    followed(&http, short_url, (302, "https://example.com/old")).await;

    let new = json!({ "destination_url": "https://example.com/new" });
    let changed = http.change(id, "\"1\"", &new).await;
    assert_eq!(
        (changed.status.as_u16(), changed.header("etag")),
        (200, "\"2\"")
    );
    let read = read_with_token(&http, id, &changed).await;
    assert_eq!(
        (read.body, read.headers["etag"].as_bytes()),
        (changed.body, &b"\"2\""[..])
    );
    followed(&http, short_url, (302, "https://example.com/new")).await;
    assert_eq!(http.change(id, "\"1\"", &new).await.status, 412);

    operator_disables_and_suspends(&stack, &http, id, short_url).await;

    let deleted = http.delete(id).await;
    assert_eq!(deleted.status, 204);
    assert_eq!(read_with_token(&http, id, &deleted).await.status, 404);
    followed(&http, short_url, (410, "")).await;
    eventually("the list omits the deleted link", || async {
        http.list_all().await.is_empty().then_some(())
    })
    .await;
    assert_eq!(
        http.delete(id).await.status,
        204,
        "a repeated delete succeeds"
    );
    assert_eq!(http.change(id, "*", &new).await.status, 404);
    let again = http
        .create("00000000-0000-4000-8000-000000000001", &body)
        .await;
    assert_eq!(
        again.body, created.body,
        "the create is replayed after the delete"
    );
    assert_eq!(stack.interrupt(), Some(0));
}

/// Disables and enables the link, and then suspends and resumes its account.
async fn operator_disables_and_suspends(stack: &Stack, http: &Http, id: &str, short_url: &str) {
    let pool = operators_pool(stack);
    let link_id: LinkId = id.parse().unwrap();
    let name = LinkName::Id(link_id);
    let request = Request::new(&pool, &SystemClock, &Author::Operator("kim".to_owned()));
    link::disable(&request, &name, "phishing").await.unwrap();
    followed(http, short_url, (410, "")).await;
    let read = http.get(&format!("/v1/links/{id}")).await;
    assert_eq!(read.status, 200, "the owner can still read the link");
    link::enable(&request, &name, "appeal").await.unwrap();
    followed(http, short_url, (302, "https://example.com/new")).await;

    let account_id = links::find_owner(&pool, link_id).await.unwrap().unwrap();
    let suspend = async |stop_redirects| {
        let suspended = account::suspend(&request, account_id, "spam", Some(stop_redirects));
        suspended.await.unwrap()
    };
    suspend(true).await;
    followed(http, short_url, (410, "")).await;
    eventually("calls of the suspended account are refused", || async {
        let refused = http.get("/v1/links").await;
        (refused.status == 403 && refused.json()["code"] == "account_suspended").then_some(())
    })
    .await;
    suspend(false).await;
    followed(http, short_url, (302, "https://example.com/new")).await;
    account::resume(&request, account_id, "cleared")
        .await
        .unwrap();
    eventually("the resumed account may call", || async {
        (http.get("/v1/links").await.status == 200).then_some(())
    })
    .await;
    pool.close().await;
}

fn operators_pool(stack: &Stack) -> PgPool {
    let url = &stack.environment()["DATABASE_URL"];
    linkledger_event_store::pool(url, SessionKind::Writer, 1).unwrap()
}
