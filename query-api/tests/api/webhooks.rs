//! Reads of webhooks and their deliveries, by owners and by operators.

use axum::http::Method;
use linkledger_core::{
    api_key::AdminScope,
    clock::{Clock as _, SystemClock, new_uuid},
    id::{AccountId, DeliveryId, EventId, WebhookId},
    webhook::{SecretVersion, Webhook, WebhookCreated, WebhookUrl},
};
use linkledger_event_store::{
    transaction::PoolTransaction,
    webhooks::{cursors, deliveries, rows},
};
use serde_json::Value;
use sqlx::PgPool;

use crate::{
    admin_routes::admin_key,
    service::{Answer, TestCaller, TestService},
};

const UNKNOWN: &str = "whe_00000000000000000000000000";

/// Inserts a webhook without its event, and returns its id.
pub(crate) async fn insert_webhook(
    pool: &PgPool,
    account_id: AccountId,
    all_accounts: bool,
) -> WebhookId {
    let now = SystemClock.now();
    let created = WebhookCreated {
        account_id,
        webhook_id: WebhookId::from_uuid(new_uuid(now)),
        url: WebhookUrl::stored("https://shop.example.com/hooks"),
        types: vec!["link.created".to_owned()],
        description: Some("shop".to_owned()),
        in_order: false,
        all_accounts,
        secret: SecretVersion {
            master_key_id: "test".to_owned(),
            generation: 1,
        },
    };
    let mut tx = PoolTransaction::begin(pool).await.unwrap();
    let start = cursors::end_of_log_in_tx(&mut tx, account_id, all_accounts).await;
    let webhook = Webhook::new(&created, now);
    rows::insert_in_tx(&mut tx, &webhook, &start.unwrap())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    created.webhook_id
}

async fn insert_delivery(pool: &PgPool, webhook_id: WebhookId) -> DeliveryId {
    let now = SystemClock.now();
    let event_id = EventId::from_uuid(new_uuid(now));
    let inserted = deliveries::insert_test(pool, webhook_id, event_id, now).await;
    inserted.unwrap()
}

/// Returns the ids of all items of a list, page by page.
async fn ids(service: &TestService, caller: &TestCaller, path: &str) -> Vec<String> {
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let separator = if path.contains('?') { '&' } else { '?' };
        let page = format!("{path}{separator}limit=2{cursor}");
        let answer = service.get(caller, &page).await;
        assert_eq!(answer.status, 200, "{page}: {}", answer.body);
        let body = answer.json();
        let items = body["items"].as_array().unwrap().iter();
        ids.extend(items.map(|item| item["id"].as_str().unwrap().to_owned()));
        match body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

#[tokio::test]
async fn owner_reads_webhooks_without_secrets() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let webhook = insert_webhook(service.pool(), caller.account_id, false).await;
    insert_delivery(service.pool(), webhook).await;
    let list = service.get(&caller, "/v1/webhooks").await;
    assert_eq!(list.status, 200, "{}", list.body);
    let (list, path) = (list.json(), format!("/v1/webhooks/{webhook}"));
    let read = service.get(&caller, &path).await;
    assert_eq!(read.header("cache-control"), Some("private, no-cache"));
    let read = read.json();
    assert_eq!(list["items"], Value::from(vec![read.clone()]));
    assert_eq!(
        (&list["next_cursor"], &list["has_more"]),
        (&Value::Null, &false.into())
    );
    assert_eq!(read["url"], "https://shop.example.com/hooks");
    assert_eq!(read["health"]["state"], "healthy");
    assert_eq!((&read["waiting"], &read["failed"]), (&1.into(), &0.into()));
    assert_eq!(
        (&read["is_replaying"], read.get("secret")),
        (&false.into(), None)
    );
}

#[tokio::test]
async fn deliveries_are_listed_newest_first_by_state() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let webhook = insert_webhook(service.pool(), caller.account_id, false).await;
    let mut inserted = Vec::new();
    for _ in 0..5 {
        inserted.push(insert_delivery(service.pool(), webhook).await.to_string());
    }
    inserted.sort();
    inserted.reverse();
    sqlx::query(
        "UPDATE event_store.webhook_deliveries
         SET state = 'failed', next_attempt_at = NULL, attempts = 8, last_status = 422, response = 'no'
         WHERE delivery_id IN (SELECT max(delivery_id::text)::uuid FROM event_store.webhook_deliveries)",
    )
    .execute(service.pool())
    .await
    .unwrap();
    let path = format!("/v1/webhooks/{webhook}/deliveries");
    assert_eq!(ids(&service, &caller, &path).await, inserted);
    let failed = ids(&service, &caller, &format!("{path}?state=failed")).await;
    assert_eq!(failed, inserted[..1]);
    let waiting = ids(&service, &caller, &format!("{path}?state=waiting")).await;
    assert_eq!(waiting, inserted[1..]);
    let delivered = ids(&service, &caller, &format!("{path}?state=delivered")).await;
    assert!(delivered.is_empty());

    let delivery = service.get(&caller, &format!("{path}/{}", failed[0])).await;
    let delivery = delivery.json();
    assert_eq!(
        (&delivery["state"], &delivery["attempts"]),
        (&"failed".into(), &8.into())
    );
    assert_eq!(
        (&delivery["last_status"], &delivery["response"]),
        (&422.into(), &"no".into())
    );
    for (query, code) in [
        ("state=lost", "invalid_parameter"),
        ("state=", "invalid_parameter"),
        ("limit=0", "invalid_parameter"),
        ("cursor=x", "invalid_cursor"),
    ] {
        let answer = service.get(&caller, &format!("{path}?{query}")).await;
        answer.assert_problem(400, code);
    }
}

#[tokio::test]
async fn foreign_webhook_is_answered_as_unknown() {
    let service = TestService::start().await;
    let (owner, stranger) = (service.caller().await, service.caller().await);
    let webhook = insert_webhook(service.pool(), owner.account_id, false).await;
    let of_operators = insert_webhook(service.pool(), owner.account_id, true).await;
    let delivery = insert_delivery(service.pool(), webhook).await;
    let paths = |webhook: &str| {
        [
            String::new(),
            "/deliveries".to_owned(),
            format!("/deliveries/{delivery}"),
        ]
        .map(|operation| format!("/v1/webhooks/{webhook}{operation}"))
    };
    for (theirs, unknown) in paths(&webhook.to_string()).iter().zip(paths(UNKNOWN)) {
        assert_eq!(service.get(&owner, theirs).await.status, 200, "{theirs}");
        let answer = service.get(&stranger, theirs).await;
        answer.assert_problem(404, "webhook_not_found");
        let unknown = service.get(&stranger, &unknown).await;
        assert_eq!(
            answer.body_without_request_id(),
            unknown.body_without_request_id()
        );
    }
    for path in paths(&of_operators.to_string()) {
        let answer = service.get(&owner, &path).await;
        answer.assert_problem(404, "webhook_not_found");
    }
    let own = insert_webhook(service.pool(), stranger.account_id, false).await;
    let other = format!("/v1/webhooks/{own}/deliveries/{delivery}");
    let answer = service.get(&stranger, &other).await;
    answer.assert_problem(404, "delivery_not_found");
}

#[tokio::test]
async fn operators_read_their_own_webhooks_only() {
    let service = TestService::start().await;
    let caller = service.caller().await;
    let owners = insert_webhook(service.pool(), caller.account_id, false).await;
    let operators = insert_webhook(service.pool(), caller.account_id, true).await;
    let delivery = insert_delivery(service.pool(), operators).await;
    let key = admin_key(service.pool(), &[AdminScope::Read]).await;
    let bearer = format!("Bearer {}", key.reveal());
    let get = async |path: &str| -> Answer {
        let headers = [("authorization", bearer.as_str())];
        let path = format!("/admin/v1/webhooks{path}");
        service.call_admin(Method::GET, &path, &headers).await
    };
    let list = get("").await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(list["items"][0]["id"], operators.to_string());
    let deliveries = get(&format!("/{operators}/deliveries?limit=1"))
        .await
        .json();
    assert_eq!(deliveries["items"][0]["id"], delivery.to_string());
    let one = get(&format!("/{operators}/deliveries/{delivery}")).await;
    assert_eq!(one.status, 200, "{}", one.body);
    get(&format!("/{owners}"))
        .await
        .assert_problem(404, "webhook_not_found");
}
