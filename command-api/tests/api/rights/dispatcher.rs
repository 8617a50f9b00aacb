//! The dispatcher of webhooks needs no rights but those of its role.

use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    event::Event,
    id::{AccountId, EventId, WebhookId},
    shard::Shard,
    webhook::{
        DeliveryState, DisabledReason, SecretVersion, WebhookCreated, WebhookEvent, WebhookUrl,
    },
};
use linkledger_event_store::webhooks::{
    cursors,
    deliveries::{self, DeliveryRecord, Progress, ProgressOutcome, SeenHealth},
    dispatcher, rows,
};
use linkledger_testing::{self as testing, TestDatabase};

use super::{as_user, database_with_roles};

/// Creates a webhook of an account.
async fn create_webhook(database: &TestDatabase, account_id: AccountId) -> WebhookId {
    let webhook_id = WebhookId::from_uuid(new_uuid(SystemClock.now()));
    let created = WebhookEvent::Created(WebhookCreated {
        account_id,
        webhook_id,
        url: WebhookUrl::stored("https://hooks.example/"),
        types: Vec::new(),
        description: None,
        in_order: false,
        all_accounts: false,
        secret: SecretVersion {
            master_key_id: "2026".to_owned(),
            generation: 1,
        },
    });
    testing::append_events(database.pool(), account_id, &[Event::Webhook(created)]).await;
    webhook_id
}

#[tokio::test]
async fn rights_of_the_dispatcher_suffice() {
    let database = database_with_roles().await;
    let account_id = testing::account(database.pool(), 0).await;
    let webhook_id = create_webhook(&database, account_id).await;
    let pool = sqlx::PgPool::connect_lazy_with(as_user(&database, "linkledger_webhooks"));
    let pool = &pool;
    let now = SystemClock.now();
    assert!(dispatcher::acquire(pool, "test", 60.0).await.unwrap());
    assert_eq!(rows::enabled(pool).await.unwrap().len(), 1);
    let stored = rows::get_to_send(pool, webhook_id, account_id).await;
    let (webhook, health) = stored.unwrap().unwrap();
    let blocked = deliveries::store_blocked(pool, webhook_id, now, Some("no key")).await;
    blocked.unwrap();
    let rescheduled = deliveries::reschedule_future(pool, webhook_id, now).await;
    rescheduled.unwrap();
    let health = SeenHealth {
        health,
        updated_at: webhook.updated_at,
    };

    let mut cursor = cursors::cursors(pool, webhook_id).await.unwrap()[0];
    cursor.place.position += 1;
    let record = DeliveryRecord {
        event_id: EventId::from_uuid(new_uuid(now)),
        message_type: "link.created".to_owned(),
        shard: Some(Shard::of(account_id)),
        position: Some(cursor.place.position),
        state: DeliveryState::Waiting,
        attempts: 1,
        next_attempt_at: Some(now),
        last_attempt_at: Some(now),
        last_status: None,
        last_error: Some("timeout".to_owned()),
        response: None,
    };
    for is_finished in [false, true] {
        let progress = Progress {
            webhook_id,
            cursor: &cursor,
            position_before: cursor.place.position - 1,
            last_event: None,
            is_finished,
            deliveries: std::slice::from_ref(&record),
            health: Some(&health),
        };
        let stored = deliveries::store_progress(pool, &progress).await;
        assert_eq!(stored.unwrap(), ProgressOutcome::Stored);
    }
    let woken = deliveries::webhooks_with_due(pool, now).await.unwrap();
    assert_eq!(woken, [webhook_id]);
    let due = deliveries::due(pool, webhook_id, now, 1).await.unwrap();
    let stored = deliveries::store_attempt(pool, &due[0], &record).await;
    stored.unwrap();
    let trimmed = deliveries::trim(pool, webhook_id, DeliveryState::Waiting, 0).await;
    assert_eq!(trimmed.unwrap(), 1);

    let reason = DisabledReason::Gone;
    assert!(
        dispatcher::disable(pool, now, &webhook, reason)
            .await
            .unwrap()
    );
    dispatcher::release(pool, "test").await.unwrap();
}
