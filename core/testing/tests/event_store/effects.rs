use linkledger_event_store::idempotency;
use linkledger_testing::{self as testing, LaterEvent, TestDatabase, events::granted};
use serde_json::json;

#[tokio::test]
async fn effect_is_found_by_its_key_in_its_account() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let account_id = testing::account(pool, 0).await;
    let event = granted(account_id, 10, 10);
    let later = LaterEvent {
        account_id,
        stream_id: account_id.uuid(),
        event_type: event.event_type(),
        schema_version: event.schema_version(),
        payload: serde_json::from_str(&event.to_payload()).unwrap(),
        metadata: json!({ "actor": "operator" }),
        idempotency_key: Some("grant:invoice-4711".to_owned()),
    };
    testing::append_later_event(pool, later).await;

    let mut session = pool.acquire().await.unwrap();
    let key = "grant:invoice-4711";
    let found = idempotency::find_effect_in_tx(&mut session, account_id, key).await;
    let found = found.unwrap().unwrap();
    assert_eq!(found.fingerprint, [0; 32]);
    assert_eq!(found.event.decode().unwrap(), event);
    assert_eq!(found.event.metadata.actor.as_deref(), Some("operator"));
    let other = testing::account(pool, 0).await;
    for (account_id, key) in [(other, key), (account_id, "adjust:invoice-4711")] {
        let found = idempotency::find_effect_in_tx(&mut session, account_id, key).await;
        assert!(found.unwrap().is_none(), "{key}");
    }
}
