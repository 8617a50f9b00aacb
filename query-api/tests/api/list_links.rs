//! `GET /v1/links`: pages, cursors, parameters, tokens.

use std::collections::HashSet;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::future::join_all;
use linkledger_core::{id::LinkId, shard::Shard};
use linkledger_testing::eventually;
use serde_json::{Value, json};
use tokio::join;

use crate::{
    read_tables::{body_of, insert_appended_link, insert_link, link_id, set_checkpoint},
    service::{BASE_URL, TestCaller, TestService, token_of},
};

/// Returns a millisecond of 2026.
const MILLISECOND: u64 = 1_795_168_260_000;

/// Creates links of the account, several per millisecond. Returns the links newest first.
async fn insert_links(service: &TestService, caller: &TestCaller, count: u64) -> Vec<LinkId> {
    let ids: Vec<LinkId> = (0..count)
        .rev()
        .map(|index| link_id(MILLISECOND + index / 5, index))
        .collect();
    for id in &ids {
        insert_link(service.pool(), caller.account_id, *id).await;
    }
    ids
}

fn ids_of(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn growing_list_pages_each_link_once() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let existing = insert_links(&service, &caller, 23).await;
    let mut listed = Vec::new();
    let mut path = "/v1/links?limit=4".to_owned();
    for page_number in 0.. {
        let page = service.get(&caller, &path).await.json();
        listed.extend(ids_of(&page));
        // New links appear at the top and among the links that were listed already.
        let newer = link_id(MILLISECOND + 1_000, page_number);
        let between = link_id(MILLISECOND + 4, 100 + page_number);
        for id in [newer, between] {
            insert_link(service.pool(), caller.account_id, id).await;
        }
        let Some(cursor) = page["next_cursor"].as_str() else {
            assert_eq!(page["has_more"], false);
            break;
        };
        assert_eq!(page["has_more"], true);
        path = format!("/v1/links?cursor={cursor}&limit=4");
    }
    let distinct: HashSet<&String> = listed.iter().collect();
    assert_eq!(distinct.len(), listed.len());
    let existing: Vec<String> = existing.iter().map(LinkId::to_string).collect();
    listed.retain(|id| existing.contains(id));
    assert_eq!(listed, existing);
}

#[tokio::test]
async fn listed_link_has_all_members() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "Sommer-Fest").await;
    insert_appended_link(service.pool(), &link).await;
    let answer = service.get(&caller, "/v1/links").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("private, no-cache"));
    let expected = json!({
        "items": [body_of(&link)],
        "next_cursor": null,
        "has_more": false,
    });
    assert_eq!(answer.json(), expected);
}

#[tokio::test]
async fn last_page_has_no_cursor() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let empty = service.get(&caller, "/v1/links").await;
    assert_eq!(
        empty.json(),
        json!({ "items": [], "next_cursor": null, "has_more": false })
    );
    insert_links(&service, &caller, 10).await;
    let full = service.get(&caller, "/v1/links?limit=10").await;
    assert_eq!(ids_of(&full.json()).len(), 10);
    assert_eq!(full.json()["has_more"], false);
    assert_eq!(full.json()["next_cursor"], json!(null));
    assert_eq!(full.header("link"), None);
}

#[tokio::test]
async fn page_size_defaults_to_fifty() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    insert_links(&service, &caller, 101).await;
    for (query, count) in [("", 50), ("?limit=100", 100), ("?limit=1", 1)] {
        let page = service
            .get(&caller, &format!("/v1/links{query}"))
            .await
            .json();
        assert_eq!(ids_of(&page).len(), count, "{query}");
        assert_eq!(page["has_more"], true, "{query}");
    }
}

#[tokio::test]
async fn link_header_uses_configured_host() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let ids = insert_links(&service, &caller, 5).await;
    let answer = service.get(&caller, "/v1/links?limit=2").await;
    let cursor = answer.json()["next_cursor"].as_str().unwrap().to_owned();
    let next = format!("{BASE_URL}/v1/links?limit=2&cursor={cursor}");
    assert_eq!(
        answer.header("link"),
        Some(format!("<{next}>; rel=\"next\"").as_str())
    );
    let path = next.strip_prefix(BASE_URL).unwrap();
    let page = service.get(&caller, path).await.json();
    assert_eq!(ids_of(&page), [ids[2].to_string(), ids[3].to_string()]);
}

#[tokio::test]
async fn cursor_outlives_row_and_accepts_other_limit() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let ids = insert_links(&service, &caller, 6).await;
    let page = service.get(&caller, "/v1/links?limit=2").await.json();
    sqlx::query("DELETE FROM read_model.links WHERE link_id = $1")
        .bind(ids[1].uuid())
        .execute(service.pool())
        .await
        .unwrap();
    let cursor = page["next_cursor"].as_str().unwrap();
    let path = format!("/v1/links?limit=3&cursor={cursor}");
    let page = service.get(&caller, &path).await.json();
    assert_eq!(
        ids_of(&page),
        [&ids[2], &ids[3], &ids[4]].map(LinkId::to_string)
    );
}

#[tokio::test]
async fn foreign_cursor_is_rejected() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    insert_links(&service, &caller, 2).await;
    let page = service.get(&caller, "/v1/links?limit=1").await.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let sealed = URL_SAFE_NO_PAD.decode(cursor).unwrap();
    let flipped = (0..sealed.len()).map(|index| {
        let mut bytes = sealed.clone();
        bytes[index] ^= 1;
        URL_SAFE_NO_PAD.encode(bytes)
    });
    let spelled_otherwise = [
        String::new(),
        cursor.to_lowercase(),
        format!("{cursor}="),
        format!("{cursor}%20"),
        cursor[1..].to_owned(),
        "null".to_owned(),
    ];
    for cursor in flipped.chain(spelled_otherwise) {
        let answer = service
            .get(&caller, &format!("/v1/links?cursor={cursor}"))
            .await;
        answer.assert_problem(400, "invalid_cursor");
        assert_eq!(answer.json()["errors"][0]["parameter"], "cursor");
    }
    let path = format!("/v1/links?cursor={cursor}");
    service
        .get(&other, &path)
        .await
        .assert_problem(400, "invalid_cursor");
    assert_eq!(service.get(&caller, &path).await.status, 200);
}

#[tokio::test]
async fn list_shows_only_own_links() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    insert_links(&service, &other, 3).await;
    let page = service.get(&caller, "/v1/links").await.json();
    assert_eq!(ids_of(&page), [""; 0]);
}

/// Requests a page until the page is answered: a busy machine may answer 503 within the deadline.
async fn page_at(service: &TestService, caller: &TestCaller, path: &str) -> Value {
    eventually("the page is answered", async || {
        let answer = service.get(caller, path).await;
        (answer.status == 200).then(|| answer.json())
    })
    .await
}

#[tokio::test]
async fn concurrent_pages_keep_accounts_apart() {
    let service = TestService::start().await;
    let mut callers = Vec::new();
    for count in 0..5 {
        let caller = service.caller().await;
        let links = insert_links(&service, &caller, count).await;
        let links: Vec<String> = links.iter().map(LinkId::to_string).collect();
        callers.push((caller, links));
    }
    // More requests than one statement takes.
    let scans = callers.iter().cycle().take(100).enumerate();
    let scans = scans.map(async |(nth, (caller, links))| {
        let limit = 1 + nth % 4;
        let mut path = format!("/v1/links?limit={limit}");
        let mut listed = Vec::new();
        loop {
            let page = page_at(&service, caller, &path).await;
            listed.extend(ids_of(&page));
            let Some(cursor) = page["next_cursor"].as_str() else {
                break;
            };
            path = format!("/v1/links?limit={limit}&cursor={cursor}");
        }
        assert_eq!(listed, *links);
    });
    join_all(scans).await;
}

#[tokio::test]
async fn unreadable_rows_fail_only_their_account() {
    let service = TestService::start().await;
    let well = service.caller().await;
    let damaged = loop {
        let caller = service.caller().await;
        if Shard::of(caller.account_id) != Shard::of(well.account_id) {
            break caller;
        }
    };
    insert_links(&service, &well, 2).await;
    sqlx::query("DELETE FROM read_model.checkpoints WHERE projection = 'links' AND shard = $1")
        .bind(Shard::of(damaged.account_id).number())
        .execute(service.pool())
        .await
        .unwrap();
    let requests = (0..50).map(async |_| {
        let lists = join!(
            page_at(&service, &well, "/v1/links"),
            service.get(&damaged, "/v1/links")
        );
        assert_eq!(ids_of(&lists.0).len(), 2);
        lists.1.assert_problem(503, "storage_unavailable");
    });
    join_all(requests).await;
}

#[tokio::test]
async fn invalid_parameters_are_named() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    for (query, parameter) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=%2B5", "limit"),
        ("limit=05", "limit"),
        ("limit=", "limit"),
        ("limit=1&limit=1", "limit"),
        ("cursor=a&cursor=a", "cursor"),
        ("slug=", "slug"),
        ("slug=a%2Fb", "slug"),
        ("slug=abc&slug=abc", "slug"),
        ("destination_url=", "destination_url"),
        ("destination_url=example.com", "destination_url"),
        ("destination_url=https://a@e.com/", "destination_url"),
        ("offset=1", "offset"),
    ] {
        let answer = service.get(&caller, &format!("/v1/links?{query}")).await;
        answer.assert_problem(400, "invalid_parameter");
        assert_eq!(
            answer.json()["errors"][0]["parameter"],
            parameter,
            "{query}"
        );
    }
    let problem = service.get(&caller, "/v1/links?limit=1000").await.json();
    assert_eq!(
        (&problem["minimum"], &problem["maximum"]),
        (&json!(1), &json!(100))
    );
}

#[tokio::test]
async fn all_invalid_parameters_are_listed() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let query = "limit=0&slug=a%20b&destination_url=javascript:a&page=2&cursor=x";
    let answer = service.get(&caller, &format!("/v1/links?{query}")).await;
    answer.assert_problem(400, "invalid_parameter");
    let problem = answer.json();
    let errors = problem["errors"].as_array().unwrap().iter();
    let named: Vec<_> = errors
        .map(|error| ["parameter", "code"].map(|it| error[it].as_str().unwrap()))
        .collect();
    let expected = [
        ["page", "unknown_parameter"],
        ["limit", "out_of_range"],
        ["slug", "slug_invalid_character"],
        ["destination_url", "url_scheme_not_allowed"],
    ];
    assert_eq!(named, expected);
    assert_eq!(problem["maximum"], 100);
}

#[tokio::test]
async fn token_makes_list_wait() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "awaited").await;
    let token = token_of(&link, 1);
    let headers = [("consistency-token", token.as_str())];

    let request = || service.get_with(&caller, "/v1/links", &headers);
    let answer = service
        .answer_after(request, async {
            insert_appended_link(service.pool(), &link).await;
            set_checkpoint(service.pool(), "links", caller.account_id, link.position).await;
        })
        .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(ids_of(&answer.json()), [link.link.link_id.to_string()]);
}

#[tokio::test]
async fn unreached_token_returns_retry_after() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let link = service.append_link(&caller, "awaited").await;
    let before = link.position - 1;
    set_checkpoint(service.pool(), "links", caller.account_id, before).await;
    let token = token_of(&link, 1);
    let headers = [("consistency-token", token.as_str())];
    let answer = service.get_with(&caller, "/v1/links", &headers).await;
    answer.assert_read_model_behind();
    // Without the token, the list shows the rows of the read table.
    assert_eq!(service.get(&caller, "/v1/links").await.status, 200);
}
