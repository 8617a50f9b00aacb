use linkledger_core::{
    id::WebhookId,
    webhook::{
        DisabledReason, SecretVersion, Webhook, WebhookChangeRequest, WebhookChanged,
        WebhookChanges, WebhookCreated, WebhookDeleted, WebhookEvent, WebhookFailing, WebhookUrl,
    },
};
use time::Duration;

use super::*;

const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
const WEBHOOK: WebhookId = WebhookId::from_uuid(Uuid::from_u128(11));
/// Head after [`life_of_a_webhook`].
const END: Position = 5;

fn created() -> WebhookCreated {
    WebhookCreated {
        account_id: ACCOUNT,
        webhook_id: WEBHOOK,
        url: WebhookUrl::stored("https://hooks.example/"),
        types: vec!["link.created".to_owned()],
        description: None,
        in_order: false,
        all_accounts: false,
        secret: SecretVersion {
            master_key_id: "2026".to_owned(),
            generation: 1,
        },
    }
}

fn of_webhook(version: i64, event: WebhookEvent) -> TestEvent {
    super::event(version, Event::Webhook(event))
}

/// Returns events that create a webhook, change it, rotate its secret and disable it, and the webhook after them.
fn life_of_a_webhook() -> (Vec<TestEvent>, Webhook) {
    let mut webhook = Webhook::new(&created(), NOW);
    let request = WebhookChangeRequest {
        types: Some(Vec::new()),
        in_order: Some(true),
        ..WebhookChangeRequest::default()
    };
    let changed = WebhookEvent::Changed(webhook.decide_change(&request).unwrap());
    let rotated = WebhookEvent::SecretRotated(webhook.decide_rotate("2027", NOW + Duration::DAY));
    let disabled = webhook.decide_disable(DisabledReason::Gone).unwrap();
    let later = [changed, rotated, WebhookEvent::Disabled(disabled)];
    let mut events = vec![
        account_created(),
        of_webhook(2, WebhookEvent::Created(created())),
    ];
    for (event, version) in later.into_iter().zip(3..) {
        webhook = webhook.apply(&event, NOW);
        events.push(of_webhook(version, event));
    }
    (events, webhook)
}

fn deleted(version: i64) -> TestEvent {
    let deleted = WebhookDeleted {
        account_id: ACCOUNT,
        webhook_id: WEBHOOK,
    };
    of_webhook(version, WebhookEvent::Deleted(deleted))
}

/// Returns the findings in the events; the webhooks were read at the head `read_at`.
fn found_with(events: &[TestEvent], webhooks: &[Webhook], read_at: Position) -> Vec<Found> {
    let mut expected = rows(&[], 0);
    for webhook in webhooks {
        expected.webhooks.insert(webhook.clone());
    }
    expected.webhooks.head = read_at;
    found_in(events, expected)
}

fn with_version(version: i64, event: &TestEvent) -> TestEvent {
    TestEvent {
        version,
        ..event.clone()
    }
}

#[test]
fn rows_of_webhooks_are_compared_at_their_own_head() {
    let (mut events, webhook) = life_of_a_webhook();
    let webhook = [webhook];
    assert_eq!(found_with(&events, &webhook, END), []);
    let first = [Webhook::new(&created(), NOW)];
    assert_eq!(found_with(&events, &first, 2), []);
    assert_one(&found_with(&events, &first, END), Some(END), "come to");
    events.push(deleted(6));
    assert_eq!(found_with(&events, &webhook, END), []);
    assert_eq!(found_with(&events, &[], END + 1), []);
    let found = found_with(&events, &webhook, END + 1);
    assert_one(&found, Some(END + 1), "it is deleted, but has a row");
}

type Damage = fn(&mut Webhook);

#[test]
fn every_member_of_a_webhook_follows_from_events() {
    let (events, webhook) = life_of_a_webhook();
    let changes: [(Damage, &str); 12] = [
        (
            |webhook| webhook.account_id = AccountId::from_uuid(Uuid::nil()),
            "account",
        ),
        (
            |webhook| webhook.url = WebhookUrl::stored("https://else.example/"),
            "url",
        ),
        (|webhook| webhook.types.push("x".to_owned()), "types"),
        (
            |webhook| webhook.description = Some("x".to_owned()),
            "description",
        ),
        (|webhook| webhook.enabled = true, "state"),
        (
            |webhook| webhook.disabled_reason = None,
            "reason of its state",
        ),
        (|webhook| webhook.in_order = false, "order"),
        (|webhook| webhook.all_accounts = true, "accounts"),
        (|webhook| webhook.secret.generation = 7, "secret"),
        (|webhook| webhook.previous_secret = None, "secret before"),
        (
            |webhook| webhook.created_at += Duration::SECOND,
            "time of creation",
        ),
        (
            |webhook| webhook.updated_at += Duration::SECOND,
            "time of change",
        ),
    ];
    for (change, text) in changes {
        let mut row = webhook.clone();
        change(&mut row);
        let found = found_with(&events, &[row], END);
        assert_one(&found, Some(END), &format!("come to: {text}"));
    }
}

#[test]
fn rows_and_events_of_webhooks_need_each_other() {
    let (events, webhook) = life_of_a_webhook();
    let found = found_with(&events, &[], END);
    assert_one(&found, Some(END), "it has no row in webhooks");
    let found = found_with(&events[..1], &[webhook], 1);
    assert_one(&found, None, "that no event explains");
}

#[test]
fn events_of_a_webhook_follow_from_each_other() {
    let (events, _) = life_of_a_webhook();
    let found_at = |events: &[TestEvent]| found_with(events, &[], 0);
    let unknown = [events[0].clone(), with_version(2, &events[2])];
    assert_one(&found_at(&unknown), Some(2), "it was never created");
    let after = |count: usize, event: &TestEvent| {
        let version = i64::try_from(count).unwrap() + 1;
        [&events[..count], &[with_version(version, event)]].concat()
    };
    let twice = after(2, &events[1]);
    assert_one(&found_at(&twice), Some(3), "it was created before");
    let again = after(3, &events[2]);
    assert_one(&found_at(&again), Some(4), "the types that it replaces");
    let again = after(4, &events[3]);
    assert_one(&found_at(&again), Some(5), "not of the next generation");
    let again = after(5, &events[4]);
    assert_one(&found_at(&again), Some(6), "it was disabled before");
    let failing = |version| {
        let failing = WebhookFailing {
            account_id: ACCOUNT,
            webhook_id: WEBHOOK,
            failing_since: NOW,
            hours: 1,
        };
        of_webhook(version, WebhookEvent::Failing(failing))
    };
    assert_eq!(found_at(&after(4, &failing(5))), []);
    let late = after(5, &failing(6));
    assert_one(&found_at(&late), Some(6), "it is disabled");
    let mut gone = after(2, &deleted(3));
    gone.push(with_version(4, &events[3]));
    assert_one(&found_at(&gone), Some(4), "it was deleted before");
}

#[test]
fn events_of_a_webhook_keep_its_rules() {
    let webhook = Webhook::new(&created(), NOW);
    let mut second = created();
    second.secret.generation = 2;
    let found_after_account = |events: &[TestEvent]| {
        let events = [&[account_created()][..], events].concat();
        found_with(&events, &[], 0)
    };
    let found = found_after_account(&[of_webhook(2, WebhookEvent::Created(second))]);
    assert_one(&found, Some(2), "not of the first generation");

    let then = |event: WebhookEvent| {
        let creation = of_webhook(2, WebhookEvent::Created(created()));
        found_after_account(&[creation, of_webhook(3, event)])
    };
    let empty = WebhookChanged {
        account_id: ACCOUNT,
        webhook_id: WEBHOOK,
        changes: WebhookChanges::default(),
    };
    let found = then(WebhookEvent::Changed(empty));
    assert_one(&found, Some(3), "it changes nothing");
    let rotated = |overlap: Duration| {
        let rotated = webhook.decide_rotate("2027", NOW + overlap);
        then(WebhookEvent::SecretRotated(rotated))
    };
    let week = Duration::hours(168);
    assert_eq!(rotated(week), []);
    let found = rotated(week + Duration::MILLISECOND);
    assert_one(&found, Some(3), "signs for too long");
}
