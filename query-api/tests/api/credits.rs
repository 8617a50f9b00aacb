//! `GET /v1/credits` and `GET /v1/credits/entries`: the balance, the ledger and its pages, tokens.

use axum::http::Method;
use linkledger_testing as testing;
use serde_json::{Value, json};

use crate::{
    read_tables::{Entry, insert_entry, set_checkpoint, unused_link_id},
    service::{BASE_URL, TestCaller, TestService, token_of},
};

const BALANCE: &str = "/v1/credits";
const ENTRIES: &str = "/v1/credits/entries";

/// Inserts grants of one credit, and returns their ids, newest first. Other events use the versions between.
async fn insert_grants(service: &TestService, caller: &TestCaller, count: i64) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 1..=count {
        let entry = Entry::grant(number * 3, 1, number);
        insert_entry(service.pool(), caller.account_id, entry).await;
        ids.insert(0, entry.id().to_string());
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
async fn account_without_entries_has_zero_balance() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let answer = service.get(&caller, BALANCE).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json(), json!({ "balance": 0, "link_price": 1 }));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("private, no-cache"));
    assert_eq!(
        service.get(&caller, ENTRIES).await.json(),
        json!({ "items": [], "next_cursor": null, "has_more": false })
    );
}

#[tokio::test]
async fn price_is_that_of_the_event_store() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let of_command_api = "UPDATE event_store.log_meta SET link_price = 7";
    sqlx::query(of_command_api)
        .execute(service.pool())
        .await
        .unwrap();
    let at_start = service.another().await.get(&caller, BALANCE).await;
    assert_eq!(at_start.json()["link_price"], 7);
    testing::eventually("a running service shows the price", async || {
        let answer = service.get(&caller, BALANCE).await;
        (answer.json()["link_price"] == 7).then_some(())
    })
    .await;
}

#[tokio::test]
async fn ledger_lists_entries_newest_first() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    let link_id = unused_link_id();
    let grant = Entry {
        description: Some("Starter pack"),
        ..Entry::grant(1, 500, 500)
    };
    let charge = Entry {
        link_id: Some(link_id),
        ..Entry::of_kind("charge", 2, -3, 497)
    };
    let adjustment = Entry::of_kind("adjustment", 4, -97, 400);
    let refund = Entry {
        link_id: Some(link_id),
        refunds: Some(charge.id()),
        ..Entry::of_kind("refund", 5, 3, 403)
    };
    let revocation = Entry::of_kind("revocation", 7, -400, 3);
    for entry in [grant, charge, adjustment, refund, revocation] {
        insert_entry(service.pool(), caller.account_id, entry).await;
    }
    insert_grants(&service, &other, 3).await;

    let balance = service.get(&caller, BALANCE).await;
    assert_eq!(balance.json(), json!({ "balance": 3, "link_price": 1 }));
    let created_at = "2026-11-20T09:51:00.123Z";
    let expected = json!({
        "items": [
            {
                "id": revocation.id(), "type": "revocation", "amount": -400, "balance_after": 3,
                "link_id": null, "created_at": created_at,
            },
            {
                "id": refund.id(), "type": "refund", "amount": 3, "balance_after": 403,
                "link_id": link_id, "refunds": charge.id(), "created_at": created_at,
            },
            {
                "id": adjustment.id(), "type": "adjustment", "amount": -97, "balance_after": 400,
                "link_id": null, "created_at": created_at,
            },
            {
                "id": charge.id(), "type": "charge", "amount": -3, "balance_after": 497,
                "link_id": link_id, "created_at": created_at,
            },
            {
                "id": grant.id(), "type": "grant", "amount": 500, "balance_after": 500,
                "link_id": null, "description": "Starter pack", "created_at": created_at,
            },
        ],
        "next_cursor": null,
        "has_more": false,
    });
    let answer = service.get(&caller, ENTRIES).await;
    assert_eq!(answer.json(), expected);
    assert_eq!(answer.header("cache-control"), Some("private, no-cache"));
    assert!(grant.id().to_string().starts_with("ent_"));
}

#[tokio::test]
async fn growing_ledger_pages_each_entry_once() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let existing = insert_grants(&service, &caller, 10).await;
    let mut listed = Vec::new();
    let mut path = format!("{ENTRIES}?limit=3");
    for version in 100.. {
        let answer = service.get(&caller, &path).await;
        let page = answer.json();
        listed.extend(ids_of(&page));
        insert_entry(
            service.pool(),
            caller.account_id,
            Entry::grant(version, 1, 1),
        )
        .await;
        let Some(cursor) = page["next_cursor"].as_str() else {
            assert_eq!(page["has_more"], false);
            assert_eq!(answer.header("link"), None);
            break;
        };
        assert_eq!(page["has_more"], true);
        path = format!("{ENTRIES}?limit=3&cursor={cursor}");
        let next = format!("<{BASE_URL}{path}>; rel=\"next\"");
        assert_eq!(answer.header("link"), Some(next.as_str()));
    }
    assert_eq!(listed, existing);
}

#[tokio::test]
async fn cursor_is_bound_to_list_and_account() {
    let service = TestService::start().await;
    let (caller, other) = (service.caller().await, service.caller().await);
    insert_grants(&service, &caller, 2).await;
    insert_grants(&service, &other, 2).await;
    let page = service
        .get(&caller, &format!("{ENTRIES}?limit=1"))
        .await
        .json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let path = format!("{ENTRIES}?cursor={cursor}");
    assert_eq!(service.get(&caller, &path).await.status, 200);
    let answer = service.get(&other, &path).await;
    answer.assert_problem(400, "invalid_cursor");
    let path = format!("/v1/links?cursor={cursor}");
    let answer = service.get(&caller, &path).await;
    answer.assert_problem(400, "invalid_cursor");
}

#[tokio::test]
async fn token_waits_for_balance_and_ledger() {
    for path in [BALANCE, ENTRIES] {
        let service = TestService::start().await;
        let caller = service.caller().await;
        let link = service.append_link(&caller, "charged").await;
        let before = link.position - 1;
        set_checkpoint(service.pool(), "credits", caller.account_id, before).await;
        // The checkpoint of another projection does not matter.
        set_checkpoint(service.pool(), "links", caller.account_id, link.position).await;
        let token = token_of(&link, 1);
        let headers = [("consistency-token", token.as_str())];
        let request = || service.get_with(&caller, path, &headers);
        let answer = service
            .answer_after(request, async {
                insert_entry(service.pool(), caller.account_id, Entry::grant(1, 7, 7)).await;
                set_checkpoint(service.pool(), "credits", caller.account_id, link.position).await;
            })
            .await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(answer.body.contains('7'), "{path}: {}", answer.body);
        set_checkpoint(service.pool(), "credits", caller.account_id, before).await;
        let answer = service.get_with(&caller, path, &headers).await;
        answer.assert_read_model_behind();
    }
}

#[tokio::test]
async fn unknown_parameters_and_methods_are_rejected() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    for path in [
        "/v1/credits?limit=5",
        "/v1/credits/entries?slug=abc",
        "/v1/credits/entries?limit=0",
        "/v1/credits/entries?type=grant",
    ] {
        let answer = service.get(&caller, path).await;
        answer.assert_problem(400, "invalid_parameter");
    }
    let answer = service.call_api(Method::POST, BALANCE, &[]).await;
    answer.assert_problem(405, "method_not_allowed");
    let answer = service.get(&caller, "/v1/credits/entries/ent_1").await;
    answer.assert_problem(404, "route_not_found");
}
