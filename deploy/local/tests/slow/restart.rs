use linkledger_event_store::SessionKind;
use serde_json::json;

use crate::process::{Stack, data_folder};

const KEY: &str = "00000000-0000-4000-8000-000000000001";

#[tokio::test]
async fn restart_keeps_links_key_and_replays() {
    let folder = data_folder();
    let body = json!({ "destination_url": "https://example.com/", "slug": "Spring" });
    let stack = Stack::start(folder.path(), &["--credits", "2"]);
    let first = stack.http().create(KEY, &body).await;
    assert_eq!(first.status, 201);
    let api_key = stack.http().api_key;
    assert_eq!(stack.interrupt(), Some(0));

    // `--credits` has no effect on an account that exists.
    let stack = Stack::start(folder.path(), &["--credits", "9"]);
    let http = stack.http();
    assert_eq!(http.api_key, api_key);
    let again = http.create(KEY, &body).await;
    assert_eq!(again.body, first.body);
    assert_eq!(again.header("idempotent-replayed"), "true");
    let id = first.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(http.get(&format!("/v1/links/{id}")).await.status, 200);
    let other = json!({ "destination_url": "https://example.com/", "slug": "summer" });
    let last = http
        .create("00000000-0000-4000-8000-000000000002", &other)
        .await;
    assert_eq!(last.json()["credits_balance"], 0);
    let id = last.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(http.get(&format!("/v1/links/{id}")).await.status, 200);
    assert_eq!(stack.interrupt(), Some(0));
}

#[tokio::test]
async fn restart_adds_scopes_that_demo_key_lacks() {
    let folder = data_folder();
    let stack = Stack::start(folder.path(), &[]);
    let clicks = stack.http().get("/v1/clicks").await;
    assert_eq!(clicks.status, 200, "{clicks:?}");
    // The key of a release without clicks.
    let url = &stack.environment()["DATABASE_URL"];
    let pool = linkledger_event_store::pool(url, SessionKind::Reader, 1).unwrap();
    sqlx::query("UPDATE event_store.api_keys SET scopes = '{link:links.write,link:links.read}'")
        .execute(&pool)
        .await
        .unwrap();
    pool.close().await;
    assert_eq!(stack.interrupt(), Some(0));
    let stack = Stack::start(folder.path(), &[]);
    for path in ["/v1/clicks", "/v1/links", "/v1/credits"] {
        assert_eq!(stack.http().get(path).await.status, 200, "{path}");
    }
    assert_eq!(stack.interrupt(), Some(0));
}

#[tokio::test]
async fn answered_creates_survive_a_kill() {
    let folder = data_folder();
    let mut created = Vec::new();
    for round in 0..3_u32 {
        let stack = Stack::start(folder.path(), &[]);
        let http = stack.http();
        for n in 0..20_u32 {
            let key = format!("00000000-0000-4000-8000-{:012}", round * 20 + n);
            let body = json!({ "destination_url": format!("https://example.com/{key}") });
            let link = http.create(&key, &body).await.json();
            created.push((key, link));
        }
        stack.kill();
    }
    let stack = Stack::start(folder.path(), &[]);
    let http = stack.http();
    for (n, (key, link)) in created.iter().enumerate() {
        let id = link["id"].as_str().unwrap();
        assert_eq!(
            http.get(&format!("/v1/links/{id}")).await.status,
            200,
            "{n}"
        );
        let body = json!({ "destination_url": format!("https://example.com/{key}") });
        assert_eq!(http.create(key, &body).await.json(), *link, "{n}");
    }
    assert_eq!(http.list_all().await.len(), created.len());
    assert_eq!(stack.interrupt(), Some(0));
}
