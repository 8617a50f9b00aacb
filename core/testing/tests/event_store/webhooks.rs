use std::sync::atomic::{AtomicU64, Ordering};

use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    event::Event,
    id::{AccountId, EventId, WebhookId},
    shard::{Position, SHARD_COUNT, Shard},
    webhook::{
        DeliveryState, DisabledReason, SecretVersion, Webhook, WebhookChangeRequest,
        WebhookCreated, WebhookEvent, WebhookUrl,
    },
};
use linkledger_event_store::{
    accounts,
    log::{
        self,
        feed::{self, FeedPlace},
    },
    transaction::PoolTransaction,
    webhooks::{
        cursors::{self, Cursor, ShardPlace},
        deliveries::{self, DeliveryRecord, Progress, ProgressOutcome, SeenHealth, StoredDelivery},
        dispatcher,
        rows::{self, EnabledWebhook, StoredWebhook, WebhookHealth},
    },
};
use linkledger_testing::{self as testing, TestDatabase};
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

/// Position up to which replays of these tests run.
const UNTIL: Position = 50;

/// Returns a webhook with a higher id than the ones before.
fn webhook(account_id: AccountId, all_accounts: bool) -> Webhook {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let created = WebhookCreated {
        account_id,
        webhook_id: WebhookId::from_uuid(Uuid::from_u64_pair(0, number)),
        url: WebhookUrl::stored("https://hooks.example/"),
        types: vec!["link.created".to_owned()],
        description: Some("test".to_owned()),
        in_order: false,
        all_accounts,
        secret: SecretVersion {
            master_key_id: "2026".to_owned(),
            generation: 1,
        },
    };
    Webhook::new(&created, SystemClock.now())
}

/// Stores a webhook whose cursors stand at the end of the log.
async fn insert(pool: &PgPool, webhook: &Webhook) {
    let (account_id, all_accounts) = (webhook.account_id, webhook.all_accounts);
    let mut tx = PoolTransaction::begin(pool).await.unwrap();
    let places = cursors::end_of_log_in_tx(&mut tx, account_id, all_accounts).await;
    let inserted = rows::insert_in_tx(&mut tx, webhook, &places.unwrap()).await;
    inserted.unwrap();
    tx.commit().await.unwrap();
}

/// Stores an owner's webhook before the first event.
async fn inserted(pool: &PgPool) -> Webhook {
    let account_id = testing::account(pool, 0).await;
    let webhook = webhook(account_id, false);
    insert(pool, &webhook).await;
    webhook
}

async fn update(pool: &PgPool, webhook: &Webhook) {
    let mut session = pool.acquire().await.unwrap();
    let updated = rows::update_in_tx(&mut session, webhook).await;
    updated.unwrap();
}

async fn delete(pool: &PgPool, webhook: &Webhook) {
    let mut session = pool.acquire().await.unwrap();
    let deleted = rows::delete_in_tx(&mut session, webhook.webhook_id).await;
    deleted.unwrap();
}

async fn start_replay(pool: &PgPool, webhook: &Webhook, until: Position) -> bool {
    let start = ShardPlace {
        shard: Shard::of(webhook.account_id),
        place: FeedPlace::BEGINNING,
    };
    let mut session = pool.acquire().await.unwrap();
    let places = [(start, until)];
    let started = cursors::start_replay_in_tx(&mut session, webhook.webhook_id, &places).await;
    started.unwrap()
}

async fn read(pool: &PgPool, webhook: &Webhook) -> StoredWebhook {
    let stored = rows::get(pool, webhook.webhook_id).await;
    stored.unwrap().unwrap()
}

/// Returns the live cursor of an owner's webhook, or that of a replay.
fn cursor(webhook: &Webhook, position: Position, until: Option<Position>) -> Cursor {
    Cursor {
        shard: Shard::of(webhook.account_id),
        is_replay: until.is_some(),
        place: FeedPlace {
            position,
            version: position,
        },
        until,
    }
}

/// Returns the time of the first attempt of the event at a position.
fn attempted_at(position: Position) -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH + Duration::seconds(position)
}

/// Returns the record of the event at a position after its first attempt.
fn record(webhook: &Webhook, position: Position, state: DeliveryState) -> DeliveryRecord {
    let is_waiting = state == DeliveryState::Waiting;
    DeliveryRecord {
        event_id: EventId::from_uuid(Uuid::from_u64_pair(0, position.unsigned_abs())),
        message_type: "link.created".to_owned(),
        shard: Some(Shard::of(webhook.account_id)),
        position: Some(position),
        state,
        attempts: 1,
        next_attempt_at: is_waiting.then(|| attempted_at(position + 5)),
        last_attempt_at: Some(attempted_at(position)),
        last_status: Some(if is_waiting { 422 } else { 204 }),
        last_error: is_waiting.then(|| "refused".to_owned()),
        response: Some("nothing".to_owned()),
    }
}

/// Stores progress of a reader that has left the cursor where it is.
async fn store(pool: &PgPool, webhook: &Webhook, cursor: Cursor, records: &[DeliveryRecord]) {
    let stored = cursors_of(pool, webhook).await;
    let stored = stored.iter().find(|it| it.is_replay == cursor.is_replay);
    let before = stored.unwrap().place.position;
    let outcome = store_from(pool, webhook, before, cursor, records).await;
    assert_eq!(outcome, ProgressOutcome::Stored);
}

/// Stores progress of a reader that has left the cursor at a position.
async fn store_from(
    pool: &PgPool,
    webhook: &Webhook,
    position_before: Position,
    cursor: Cursor,
    records: &[DeliveryRecord],
) -> ProgressOutcome {
    let progress = Progress {
        deliveries: records,
        ..progress(webhook, position_before, &cursor)
    };
    let stored = deliveries::store_progress(pool, &progress).await;
    stored.unwrap()
}

async fn finish(
    pool: &PgPool,
    webhook: &Webhook,
    position_before: Position,
    cursor: Cursor,
) -> ProgressOutcome {
    let progress = Progress {
        is_finished: true,
        ..progress(webhook, position_before, &cursor)
    };
    let stored = deliveries::store_progress(pool, &progress).await;
    stored.unwrap()
}

/// Returns progress whose event is not compared with the log.
fn progress<'a>(webhook: &Webhook, position_before: Position, cursor: &'a Cursor) -> Progress<'a> {
    Progress {
        webhook_id: webhook.webhook_id,
        cursor,
        position_before,
        last_event: None,
        is_finished: false,
        deliveries: &[],
        health: None,
    }
}

/// Returns position, state and attempts of each delivery, newest first.
async fn listed(pool: &PgPool, webhook: &Webhook) -> Vec<(Position, DeliveryState, i32)> {
    let listed = deliveries::list(pool, webhook.webhook_id, None, None, 100).await;
    let rows = listed.unwrap().into_iter();
    rows.map(|row| (row.position.unwrap(), row.state, row.attempts))
        .collect()
}

async fn newest(pool: &PgPool, webhook: &Webhook) -> StoredDelivery {
    let listed = deliveries::list(pool, webhook.webhook_id, None, None, 1).await;
    listed.unwrap().remove(0)
}

async fn cursors_of(pool: &PgPool, webhook: &Webhook) -> Vec<Cursor> {
    let cursors = cursors::cursors(pool, webhook.webhook_id).await;
    cursors.unwrap()
}

#[tokio::test]
async fn webhook_is_read_as_it_was_written() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let mut webhook = inserted(pool).await;
    let neighbour = inserted(pool).await;
    let of_operators = self::webhook(webhook.account_id, true);
    insert(pool, &of_operators).await;
    let stored = read(pool, &webhook).await;
    assert_eq!(stored.webhook, webhook);
    let to_send = rows::get_to_send(pool, webhook.webhook_id, webhook.account_id).await;
    assert_eq!(to_send.unwrap(), Some((stored.webhook, stored.health)));
    let of_stranger = rows::get_to_send(pool, webhook.webhook_id, neighbour.account_id).await;
    assert_eq!(of_stranger.unwrap(), None);

    let rotated = webhook.decide_rotate("2027", SystemClock.now());
    webhook = webhook.apply(&WebhookEvent::SecretRotated(rotated), SystemClock.now());
    let disabled = webhook.decide_disable(DisabledReason::Gone).unwrap();
    webhook = webhook.apply(&WebhookEvent::Disabled(disabled), SystemClock.now());
    update(pool, &webhook).await;
    let mut session = pool.acquire().await.unwrap();
    let in_tx = rows::get_in_tx(&mut session, webhook.webhook_id).await;
    assert_eq!(in_tx.unwrap(), Some(webhook.clone()));
    for all_accounts in [false, true] {
        let count = rows::count_in_tx(&mut session, webhook.account_id, all_accounts).await;
        assert_eq!(count.unwrap(), 1);
    }
    let owned = rows::list(pool, webhook.account_id).await.unwrap();
    assert_eq!(owned, [read(pool, &webhook).await]);
    let of_all = rows::list_of_operators(pool).await.unwrap();
    assert_eq!(of_all, [read(pool, &of_operators).await]);
    let enabled = rows::enabled(pool).await.unwrap();
    let entry = |webhook: &Webhook| EnabledWebhook {
        webhook_id: webhook.webhook_id,
        account_id: webhook.account_id,
        all_accounts: webhook.all_accounts,
        updated_at: webhook.updated_at,
    };
    assert_eq!(enabled, [entry(&neighbour), entry(&of_operators)]);

    let mut all = Vec::new();
    let heads = rows::read_each(pool, |webhook| all.push(webhook)).await;
    assert_eq!(heads.unwrap(), log::heads(pool).await.unwrap());
    assert_eq!(all, [webhook, neighbour, of_operators]);
}

#[tokio::test]
async fn new_webhook_stands_at_the_end_of_the_log() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let account_id = testing::account(pool, 10).await;
    testing::append_links(pool, account_id, &[("spring", "https://example.com/")]).await;
    let owned = webhook(account_id, false);
    insert(pool, &owned).await;
    let end = feed::end_place(pool, account_id).await.unwrap();
    let cursors = cursors_of(pool, &owned).await;
    let places: Vec<FeedPlace> = cursors.iter().map(|cursor| cursor.place).collect();
    assert_eq!(places, [end]);

    let of_operators = webhook(account_id, true);
    insert(pool, &of_operators).await;
    let heads = log::heads(pool).await.unwrap();
    let cursors = cursors_of(pool, &of_operators).await;
    let shards: Vec<Shard> = cursors.iter().map(|cursor| cursor.shard).collect();
    assert_eq!(shards.len(), usize::from(SHARD_COUNT));
    assert!(shards.into_iter().eq(Shard::all()));
    let positions = cursors.iter().map(|cursor| cursor.place.position);
    assert!(positions.eq(heads));
    assert!(cursors.iter().all(|cursor| cursor.place.version == 0));
}

/// Returns the webhook after a change by its owner.
fn changed(webhook: &Webhook, wanted: &WebhookChangeRequest) -> Webhook {
    let changed = webhook.decide_change(wanted).unwrap();
    let at = webhook.updated_at + Duration::SECOND;
    webhook.clone().apply(&WebhookEvent::Changed(changed), at)
}

fn switched(webhook: &Webhook, enabled: bool) -> Webhook {
    let wanted = WebhookChangeRequest {
        enabled: Some(enabled),
        ..WebhookChangeRequest::default()
    };
    changed(webhook, &wanted)
}

/// Returns the health of a receiver that is ill.
fn ill() -> WebhookHealth {
    WebhookHealth {
        ill_since: Some(attempted_at(1)),
        probes: 3,
        next_probe_at: Some(attempted_at(2)),
        failing_since: Some(attempted_at(1)),
        blocked_since: None,
        notified_hours: 0,
        last_success_at: Some(attempted_at(0)),
        last_attempt_at: Some(attempted_at(1)),
        last_status: Some(503),
        last_error: Some("unavailable".to_owned()),
    }
}

async fn store_health(pool: &PgPool, webhook: &Webhook, health: &WebhookHealth) {
    let (webhook_id, updated_at) = (webhook.webhook_id, webhook.updated_at);
    let stored = deliveries::store_health(pool, webhook_id, updated_at, health).await;
    stored.unwrap();
}

#[tokio::test]
async fn enabling_or_another_address_ends_the_illness() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let cured = WebhookHealth {
        ill_since: None,
        probes: 0,
        next_probe_at: None,
        failing_since: None,
        ..ill()
    };
    let webhook = inserted(pool).await;
    store_health(pool, &webhook, &ill()).await;
    update(pool, &webhook).await;
    assert_eq!(read(pool, &webhook).await.health, ill(), "it was enabled");
    let webhook = switched(&webhook, false);
    update(pool, &webhook).await;
    assert_eq!(read(pool, &webhook).await.health, ill());
    update(pool, &switched(&webhook, true)).await;
    assert_eq!(read(pool, &webhook).await.health, cured);

    let webhook = inserted(pool).await;
    store_health(pool, &webhook, &ill()).await;
    let wanted = WebhookChangeRequest {
        url: Some(WebhookUrl::stored("https://other.example/")),
        ..WebhookChangeRequest::default()
    };
    let moved = changed(&webhook, &wanted);
    update(pool, &moved).await;
    assert_eq!(read(pool, &webhook).await.health, cured);
    // An attempt at the address before was on its way.
    store_health(pool, &webhook, &ill()).await;
    assert_eq!(read(pool, &webhook).await.health, cured);
    store_health(pool, &moved, &ill()).await;
    assert_eq!(read(pool, &webhook).await.health, ill());
}

#[tokio::test]
async fn health_is_stored_with_progress() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let webhook = inserted(pool).await;
    let health = SeenHealth {
        health: WebhookHealth {
            last_error: Some("\0unavailable".to_owned()),
            ..ill()
        },
        updated_at: webhook.updated_at,
    };
    let at = cursor(&webhook, 9, None);
    let progress = |position_before| Progress {
        health: Some(&health),
        ..progress(&webhook, position_before, &at)
    };
    let superseded = deliveries::store_progress(pool, &progress(8)).await;
    assert_eq!(superseded.unwrap(), ProgressOutcome::Superseded);
    assert_eq!(read(pool, &webhook).await.health, WebhookHealth::default());
    let before = cursors_of(pool, &webhook).await[0].place.position;
    let stored = deliveries::store_progress(pool, &progress(before)).await;
    assert_eq!(stored.unwrap(), ProgressOutcome::Stored);
    assert_eq!(read(pool, &webhook).await.health, ill());
}

#[tokio::test]
async fn blocked_webhook_says_why_until_it_is_not() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let webhook = inserted(pool).await;
    let block = async |at, reason| {
        let stored = deliveries::store_blocked(pool, webhook.webhook_id, at, reason).await;
        stored.unwrap();
        let health = read(pool, &webhook).await.health;
        (health.blocked_since, health.last_error)
    };
    let since = Some(attempted_at(1));
    let reason = |text: &str| Some(text.to_owned());
    assert_eq!(
        block(attempted_at(1), Some("no key")).await,
        (since, reason("no key"))
    );
    assert_eq!(
        block(attempted_at(2), Some("damage")).await,
        (since, reason("damage"))
    );
    assert_eq!(block(attempted_at(3), None).await, (None, None));
    // The error of a later attempt stays.
    block(attempted_at(0), Some("no key")).await;
    store_health(pool, &webhook, &ill()).await;
    assert_eq!(
        block(attempted_at(3), None).await,
        (None, reason("unavailable"))
    );
}

/// Returns the event at a position.
async fn event_at(pool: &PgPool, webhook: &Webhook, position: Position) -> EventId {
    let events = log::read_at(pool, Shard::of(webhook.account_id), &[position]).await;
    events.unwrap()[0].event_id
}

#[tokio::test]
async fn progress_of_another_history_moves_nothing() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let webhook = inserted(pool).await;
    let account_id = webhook.account_id;
    let grants = vec![testing::events::granted(account_id, 1, 1); 3];
    let positions = testing::append_events(pool, account_id, &grants).await;
    let [first, _, last] = positions[..] else {
        panic!("{positions:?}")
    };
    let forgotten = event_at(pool, &webhook, last).await;
    store(pool, &webhook, cursor(&webhook, first, None), &[]).await;
    let at = cursor(&webhook, last, None);
    let waiting = [record(&webhook, last, DeliveryState::Waiting)];
    let store = async |position_before, event_id| {
        let progress = Progress {
            last_event: Some(event_id),
            deliveries: &waiting,
            ..progress(&webhook, position_before, &at)
        };
        let stored = deliveries::store_progress(pool, &progress).await;
        stored.unwrap()
    };
    testing::forget_events_after(pool, account_id, first).await;
    assert_eq!(store(first, forgotten).await, ProgressOutcome::Superseded);
    testing::append_events(pool, account_id, &grants).await;
    assert_eq!(store(first, forgotten).await, ProgressOutcome::Superseded);
    let found = event_at(pool, &webhook, last).await;
    // The cursor was restored too.
    assert_eq!(store(first + 1, found).await, ProgressOutcome::Superseded);
    assert_eq!(
        cursors_of(pool, &webhook).await,
        [cursor(&webhook, first, None)]
    );
    assert_eq!(listed(pool, &webhook).await, []);
    assert_eq!(store(first, found).await, ProgressOutcome::Stored);
    // The answer was lost.
    assert_eq!(store(first, found).await, ProgressOutcome::Stored);
    assert_eq!(cursors_of(pool, &webhook).await, [at]);
    assert_eq!(
        listed(pool, &webhook).await,
        [(last, DeliveryState::Waiting, 1)]
    );
}

#[tokio::test]
async fn cursor_never_moves_back() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let webhook = inserted(pool).await;
    assert!(start_replay(pool, &webhook, UNTIL).await);
    for until in [None, Some(UNTIL)] {
        let at = |position| cursor(&webhook, position, until);
        store(pool, &webhook, at(9), &[]).await;
        // The second event was answered before the first one.
        let first = if until.is_some() { 20 } else { 10 };
        let early = record(&webhook, first + 1, DeliveryState::Delivered);
        store(pool, &webhook, at(9), &[early]).await;
        let late = [7, first].map(|position| record(&webhook, position, DeliveryState::Waiting));
        store(pool, &webhook, at(8), &late).await;
        assert!(
            cursors_of(pool, &webhook).await.contains(&at(9)),
            "{until:?}"
        );
    }
    let listed = listed(pool, &webhook).await;
    let positions: Vec<Position> = listed.iter().map(|(position, ..)| *position).collect();
    assert_eq!(positions, [21, 20, 11, 10], "event 7 was passed before");
}

#[tokio::test]
async fn one_replay_runs_at_a_time() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let webhook = inserted(pool).await;
    assert!(start_replay(pool, &webhook, UNTIL).await);
    assert!(!start_replay(pool, &webhook, UNTIL).await);
    assert!(read(pool, &webhook).await.replays);
    let now = SystemClock.now();
    let woken = deliveries::webhooks_with_due(pool, now).await;
    assert_eq!(woken.unwrap(), [webhook.webhook_id]);
    let end = cursor(&webhook, UNTIL, Some(UNTIL));
    let finished = finish(pool, &webhook, 0, end).await;
    assert_eq!(finished, ProgressOutcome::Stored);
    assert!(!read(pool, &webhook).await.replays);
    let woken = deliveries::webhooks_with_due(pool, now).await;
    assert_eq!(woken.unwrap(), []);

    // Late progress of the first replay does not concern the second one, of the same events.
    assert!(start_replay(pool, &webhook, UNTIL).await);
    let before = cursors_of(pool, &webhook).await;
    let late = cursor(&webhook, 40, Some(UNTIL));
    let stored = store_from(pool, &webhook, 30, late, &[]).await;
    assert_eq!(stored, ProgressOutcome::Superseded);
    let finished = finish(pool, &webhook, 40, end).await;
    assert_eq!(finished, ProgressOutcome::Superseded);
    assert_eq!(cursors_of(pool, &webhook).await, before);
    assert_eq!(before.len(), 2);
}

#[tokio::test]
async fn progress_of_a_deleted_webhook_changes_nothing() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let webhook = inserted(pool).await;
    let waiting = [record(&webhook, 10, DeliveryState::Waiting)];
    store(pool, &webhook, cursor(&webhook, 10, None), &waiting).await;
    let delivery = newest(pool, &webhook).await;
    delete(pool, &webhook).await;
    let stored = store_from(pool, &webhook, 10, cursor(&webhook, 20, None), &waiting).await;
    assert_eq!(stored, ProgressOutcome::Superseded);
    let attempt = deliveries::store_attempt(pool, &delivery, &waiting[0]).await;
    attempt.unwrap();
    store_health(pool, &webhook, &WebhookHealth::default()).await;
    assert_eq!(rows::get(pool, webhook.webhook_id).await.unwrap(), None);
    assert_eq!(listed(pool, &webhook).await, []);
    assert_eq!(cursors_of(pool, &webhook).await, []);
    let event_id = waiting[0].event_id;
    let test = deliveries::insert_test(pool, webhook.webhook_id, event_id, SystemClock.now()).await;
    assert_eq!(crate::violated(test), "webhook_deliveries_webhook_known");
}

#[tokio::test]
async fn delivered_never_becomes_waiting_by_a_late_store() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let webhook = inserted(pool).await;
    let waiting = |attempts| DeliveryRecord {
        attempts,
        ..record(&webhook, 10, DeliveryState::Waiting)
    };
    let delivered = record(&webhook, 10, DeliveryState::Delivered);
    let at = cursor(&webhook, 5, None);
    store(pool, &webhook, at, &[waiting(3)]).await;
    store(pool, &webhook, at, &[waiting(2)]).await;
    let expected = |state, attempts| [(10, state, attempts)];
    assert_eq!(
        listed(pool, &webhook).await,
        expected(DeliveryState::Waiting, 3)
    );
    store(pool, &webhook, at, std::slice::from_ref(&delivered)).await;
    let late = DeliveryRecord {
        last_attempt_at: Some(attempted_at(100)),
        ..waiting(4)
    };
    store(pool, &webhook, at, std::slice::from_ref(&late)).await;
    let delivery = newest(pool, &webhook).await;
    let attempt = deliveries::store_attempt(pool, &delivery, &late).await;
    attempt.unwrap();
    let is_delivered = expected(DeliveryState::Delivered, 1);
    assert_eq!(listed(pool, &webhook).await, is_delivered);

    // A replay sends the message again: what was refused later waits.
    assert!(start_replay(pool, &webhook, UNTIL).await);
    let at = cursor(&webhook, 5, Some(UNTIL));
    store(pool, &webhook, at, &[waiting(1)]).await;
    assert_eq!(
        listed(pool, &webhook).await,
        is_delivered,
        "no later attempt"
    );
    store(pool, &webhook, at, &[late]).await;
    assert_eq!(
        listed(pool, &webhook).await,
        expected(DeliveryState::Waiting, 4)
    );
}

#[tokio::test]
async fn waiting_delivery_is_due_until_it_ends() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let webhook = inserted(pool).await;
    let webhook_id = webhook.webhook_id;
    let records = [10, 11].map(|position| record(&webhook, position, DeliveryState::Waiting));
    store(pool, &webhook, cursor(&webhook, 11, None), &records).await;
    let due_at = async |now| {
        let due = deliveries::due(pool, webhook_id, now, 8).await.unwrap();
        let woken = deliveries::webhooks_with_due(pool, now).await.unwrap();
        assert_eq!(woken.is_empty(), due.is_empty());
        due
    };
    assert_eq!(due_at(attempted_at(14)).await, []);
    let due = due_at(attempted_at(15)).await;
    let [first] = due.as_slice() else {
        panic!("{due:?}")
    };
    assert_eq!(first.event_id, records[0].event_id);
    let failed = DeliveryRecord {
        state: DeliveryState::Failed,
        attempts: 2,
        next_attempt_at: None,
        response: Some("\0".to_owned() + &"\u{e9}".repeat(2_000)),
        ..records[0].clone()
    };
    let attempt = deliveries::store_attempt(pool, first, &failed).await;
    attempt.unwrap();
    assert_eq!(due_at(attempted_at(15)).await, []);
    let stored = deliveries::get(pool, webhook_id, first.delivery_id).await;
    let stored = stored.unwrap().unwrap();
    assert_eq!(stored.response, Some("\u{e9}".repeat(1_024)));
    let counted = read(pool, &webhook).await;
    assert_eq!((counted.waiting, counted.failed), (1, 1));
    let count = deliveries::waiting_count(pool, webhook_id, 1_000).await;
    assert_eq!(count.unwrap(), 1);

    let retried = deliveries::retry_now(pool, webhook_id, first.delivery_id, attempted_at(9)).await;
    let retried = retried.unwrap().unwrap();
    assert_eq!(
        (retried.state, retried.attempts),
        (DeliveryState::Waiting, 2)
    );
    assert_eq!(due_at(attempted_at(9)).await, [retried]);
    let stranger = inserted(pool).await.webhook_id;
    let refused = deliveries::retry_now(pool, stranger, first.delivery_id, attempted_at(9)).await;
    assert_eq!(refused.unwrap(), None);
}

#[tokio::test]
async fn attempt_keeps_a_retry_that_was_requested_meanwhile() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let webhook = inserted(pool).await;
    let waiting = [record(&webhook, 10, DeliveryState::Waiting)];
    store(pool, &webhook, cursor(&webhook, 10, None), &waiting).await;
    let read = newest(pool, &webhook).await;
    let (id, requested_at) = (read.delivery_id, attempted_at(99));
    let retried = deliveries::retry_now(pool, webhook.webhook_id, id, requested_at).await;
    retried.unwrap();
    let failed = DeliveryRecord {
        state: DeliveryState::Failed,
        attempts: 2,
        next_attempt_at: None,
        ..waiting[0].clone()
    };
    for _ in ["at first", "once more, since the answer was lost"] {
        let stored = deliveries::store_attempt(pool, &read, &failed).await;
        stored.unwrap();
    }
    let stored = newest(pool, &webhook).await;
    let schedule = (stored.state, stored.attempts, stored.next_attempt_at);
    assert_eq!(schedule, (DeliveryState::Waiting, 2, Some(requested_at)));
}

#[tokio::test]
async fn schedule_of_a_clock_that_was_ahead_is_void() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let webhook = inserted(pool).await;
    let records = [100, 200].map(|position| record(&webhook, position, DeliveryState::Waiting));
    store(pool, &webhook, cursor(&webhook, 200, None), &records).await;
    let now = attempted_at(110);
    let rescheduled = deliveries::reschedule_future(pool, webhook.webhook_id, now).await;
    rescheduled.unwrap();
    let listed = deliveries::list(pool, webhook.webhook_id, None, None, 10).await;
    let plans = listed.unwrap().into_iter().map(|it| it.next_attempt_at);
    let plans: Vec<_> = plans.flatten().collect();
    assert_eq!(plans, [now, attempted_at(105)]);
}

#[tokio::test]
async fn deliveries_are_listed_by_pages_of_a_state() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let webhook = inserted(pool).await;
    let webhook_id = webhook.webhook_id;
    let state_of = |position: Position| match position % 3 {
        0 => DeliveryState::Waiting,
        1 => DeliveryState::Failed,
        _ => DeliveryState::Delivered,
    };
    let records: Vec<_> = (1..10)
        .map(|position| record(&webhook, position, state_of(position)))
        .collect();
    store(pool, &webhook, cursor(&webhook, 9, None), &records).await;
    let now = SystemClock.now();
    let event_id = EventId::from_uuid(new_uuid(now));
    let test = deliveries::insert_test(pool, webhook_id, event_id, now).await;
    let states = DeliveryState::ALL.map(Some);
    for state in [None].into_iter().chain(states) {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = deliveries::list(pool, webhook_id, state, after, 2).await;
            let page = page.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.delivery_id);
            seen.extend(page.into_iter().filter_map(|delivery| delivery.position));
        }
        let wanted = (1..10)
            .rev()
            .filter(|it| state.is_none_or(|state| state == state_of(*it)));
        assert_eq!(seen, wanted.collect::<Vec<_>>(), "{state:?}");
    }
    let newest = deliveries::list(pool, webhook_id, None, None, 1)
        .await
        .unwrap();
    assert_eq!(newest[0].delivery_id, test.unwrap());
    assert_eq!(
        (newest[0].attempts, newest[0].next_attempt_at),
        (0, Some(now))
    );
}

#[tokio::test]
async fn trimming_keeps_the_newest_of_a_state() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let webhook = inserted(pool).await;
    let mut records: Vec<_> = (1..=6)
        .map(|position| record(&webhook, position, DeliveryState::Delivered))
        .collect();
    records[0].state = DeliveryState::Failed;
    records[3].state = DeliveryState::Failed;
    store(pool, &webhook, cursor(&webhook, 6, None), &records).await;
    let trim = async |state, kept| {
        let trimmed = deliveries::trim(pool, webhook.webhook_id, state, kept).await;
        trimmed.unwrap()
    };
    let positions = async || -> Vec<Position> {
        let listed = listed(pool, &webhook).await;
        listed.into_iter().map(|(position, ..)| position).collect()
    };
    assert_eq!(trim(DeliveryState::Delivered, 10).await, 0);
    assert_eq!(trim(DeliveryState::Delivered, 2).await, 2);
    assert_eq!(positions().await, [6, 5, 4, 1]);
    assert_eq!(trim(DeliveryState::Failed, 1).await, 1);
    assert_eq!(positions().await, [6, 5, 4]);
}

#[tokio::test]
async fn lease_has_one_owner_until_it_expires() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let acquire = async |owner, seconds| dispatcher::acquire(pool, owner, seconds).await.unwrap();
    assert!(acquire("first", 600.0).await);
    assert!(!acquire("second", 600.0).await);
    assert!(acquire("first", 600.0).await, "renewed");
    dispatcher::release(pool, "second").await.unwrap();
    assert!(!acquire("second", 600.0).await);
    dispatcher::release(pool, "first").await.unwrap();
    assert!(acquire("second", 0.0).await);
    assert!(acquire("first", 600.0).await, "expired");
    assert!(!acquire("second", 600.0).await);
}

#[tokio::test]
async fn dispatcher_disables_a_webhook_once() {
    let database = TestDatabase::create().await;
    let pool = database.pool();
    let webhook = inserted(pool).await;
    let account_id = webhook.account_id;
    let now = SystemClock.now();
    let reason = DisabledReason::Unreachable;
    let version = async || {
        let account = accounts::get(pool, account_id).await.unwrap();
        account.unwrap().version
    };
    let before = version().await;
    let disable = async || {
        dispatcher::disable(pool, now, &webhook, reason)
            .await
            .unwrap()
    };
    // The owner has changed the webhook since it was read.
    let changed = Webhook {
        updated_at: webhook.updated_at + Duration::SECOND,
        ..webhook.clone()
    };
    update(pool, &changed).await;
    assert!(!disable().await);
    update(pool, &webhook).await;
    assert!(disable().await);
    assert!(!disable().await);
    assert_eq!(version().await, before + 1);
    let event = WebhookEvent::Disabled(webhook.decide_disable(reason).unwrap());
    let page = feed::read_page(pool, account_id, FeedPlace::BEGINNING, 100).await;
    let last = page.unwrap().events.pop().unwrap();
    assert_eq!(last.metadata.actor.as_deref(), Some("dispatcher"));
    assert_eq!(last.decode().unwrap(), Event::Webhook(event.clone()));
    assert_eq!(
        read(pool, &webhook).await.webhook,
        webhook.clone().apply(&event, now)
    );
    delete(pool, &webhook).await;
    assert!(!disable().await);
}
