//! A receiver that is ill gets one probe at a time, loses no message, and is disabled after five days.

use std::time::Duration;

use linkledger_core::{
    clock::Clock as _,
    webhook::{DisabledReason, WebhookChangeRequest},
};
use linkledger_testing::eventually;

use crate::{
    dispatch_fixture::DispatchFixture,
    receiver::{Answer, Receiver},
};

const HOUR: Duration = Duration::from_hours(1);

#[tokio::test]
async fn retry_after_delays_the_probe() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::RetryAfter(429, 600)).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let events = fixture.grants(3).await;
    let dispatcher = fixture.dispatcher().await;
    let stored = fixture
        .eventually("the receiver is ill", webhook, |it| {
            it.health.ill_since.is_some()
        })
        .await;
    let asked = fixture.clock.now() + Duration::from_mins(10);
    assert_eq!(stored.health.next_probe_at, Some(asked));
    assert_eq!(stored.health.last_status, Some(429));
    let before = receiver.received().len();
    receiver.answer(|_, _| Answer::Status(200));
    fixture.clock.advance(Duration::from_secs(599));
    // A further webhook shows that the dispatcher goes on meanwhile.
    let other = Receiver::accepting().await;
    fixture.webhook(&other.url()).await;
    other.eventually_accepts(&events).await;
    assert_eq!(receiver.received().len(), before);
    fixture.clock.advance(Duration::from_secs(2));
    receiver.eventually_accepts(&events).await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn dead_receiver_holds_one_probe_and_gets_all_later() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(503)).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let mut events = fixture.grants(20).await;
    let dispatcher = fixture.dispatcher().await;
    fixture
        .eventually("the receiver is ill", webhook, |it| {
            it.health.ill_since.is_some()
        })
        .await;
    receiver.take_open_max();
    let cursor = fixture.cursors(webhook).await[0];
    // Two hours and more, in which events go on.
    for probes in 1..=7 {
        events.extend(fixture.grants(5).await);
        fixture.clock.advance(HOUR + HOUR / 4);
        fixture
            .eventually("a probe failed", webhook, |it| it.health.probes == probes)
            .await;
    }
    assert_eq!(receiver.take_open_max(), 1);
    assert_eq!(fixture.cursors(webhook).await[0], cursor);
    assert!(fixture.stored(webhook).await.webhook.enabled);
    receiver.answer(|_, _| Answer::Status(200));
    fixture.clock.advance(HOUR + HOUR / 4);
    receiver.eventually_accepts(&events).await;
    fixture.eventually_at_end(webhook).await;
    let health = fixture.stored(webhook).await.health;
    assert_eq!((health.ill_since, health.probes), (None, 0));
    dispatcher.stop().await;
}

#[tokio::test]
async fn five_days_disable_and_enabling_goes_on() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(500)).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let events = fixture.grants(5).await;
    let dispatcher = fixture.dispatcher().await;
    fixture
        .eventually("the receiver is ill", webhook, |it| {
            it.health.ill_since.is_some()
        })
        .await;
    for (probes, hours) in [(1, 24), (2, 24), (3, 24), (4, 24), (5, 23)] {
        fixture.clock.advance(hours * HOUR);
        fixture
            .eventually("a probe failed", webhook, |it| it.health.probes == probes)
            .await;
    }
    assert!(fixture.stored(webhook).await.webhook.enabled);
    fixture.clock.advance(2 * HOUR);
    let stored = fixture
        .eventually("the webhook is disabled", webhook, |it| !it.webhook.enabled)
        .await;
    let reason = stored.webhook.disabled_reason;
    assert_eq!(reason, Some(DisabledReason::Unreachable));
    receiver.answer(|_, _| Answer::Status(200));
    fixture.set_enabled(webhook, true).await;
    receiver.eventually_accepts(&events).await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn week_without_a_dispatcher_disables_nothing() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(503)).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let events = fixture.grants(5).await;
    let dispatcher = fixture.dispatcher().await;
    fixture
        .eventually("the receiver is ill", webhook, |it| {
            it.health.ill_since.is_some()
        })
        .await;
    dispatcher.stop().await;
    fixture.clock.advance(7 * 24 * HOUR);
    let dispatcher = fixture.dispatcher().await;
    let stored = fixture
        .eventually("a probe failed", webhook, |it| it.health.probes > 0)
        .await;
    assert!(stored.webhook.enabled);
    receiver.answer(|_, _| Answer::Status(200));
    fixture.clock.advance(HOUR);
    receiver.eventually_accepts(&events).await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn receiver_that_refuses_everything_is_disabled_after_five_days() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(404)).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let dispatcher = fixture.dispatcher().await;
    for day in 0..=5 {
        assert!(fixture.stored(webhook).await.webhook.enabled, "day {day}");
        let events = fixture.grants(1).await;
        fixture
            .eventually_delivery((webhook, events[0]), |it| it.attempts > 0)
            .await;
        if day < 5 {
            fixture.clock.advance(24 * HOUR);
        }
    }
    let stored = fixture
        .eventually("the webhook is disabled", webhook, |it| !it.webhook.enabled)
        .await;
    let reason = stored.webhook.disabled_reason;
    assert_eq!(reason, Some(DisabledReason::Unreachable));
    dispatcher.stop().await;
}

#[tokio::test]
async fn refusal_beside_a_thousand_waiting_is_an_illness() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(400)).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    sqlx::query(
        "INSERT INTO event_store.webhook_deliveries
             (delivery_id, webhook_id, event_id, message_type, state, attempts, next_attempt_at,
              created_at)
         SELECT gen_random_uuid(), $1, gen_random_uuid(), 'webhook.test', 'waiting', 1,
                '2100-01-01', now()
         FROM generate_series(1, 1000)",
    )
    .bind(webhook.uuid())
    .execute(fixture.pool())
    .await
    .unwrap();
    let events = fixture.grants(3).await;
    let dispatcher = fixture.dispatcher().await;
    fixture
        .eventually("the receiver counts as ill", webhook, |it| {
            it.health.ill_since.is_some()
        })
        .await;
    let deliveries = fixture.deliveries(webhook).await;
    assert!(deliveries.iter().all(|it| !events.contains(&it.event_id)));
    receiver.answer(|_, _| Answer::Status(200));
    fixture.clock.advance(Duration::from_mins(1));
    receiver.eventually_accepts(&events).await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn clock_that_was_ahead_delays_nothing() {
    let fixture = DispatchFixture::new().await;
    let ahead = Duration::from_hours(6);
    fixture.clock.advance(ahead);
    let ill = Receiver::answering(|_, _| Answer::RetryAfter(503, 600)).await;
    let refusing = Receiver::answering(|_, _| Answer::Status(400)).await;
    let of_ill = fixture.webhook(&ill.url()).await;
    let of_refusing = fixture.webhook(&refusing.url()).await;
    let events = fixture.grants(1).await;
    let dispatcher = fixture.dispatcher().await;
    fixture
        .eventually("the receiver is ill", of_ill, |it| {
            it.health.ill_since.is_some()
        })
        .await;
    fixture
        .eventually_delivery((of_refusing, events[0]), |it| it.attempts == 1)
        .await;
    for receiver in [&ill, &refusing] {
        receiver.answer(|_, _| Answer::Status(200));
    }
    fixture.clock.set_back(ahead);
    for receiver in [&ill, &refusing] {
        receiver.eventually_accepts(&events).await;
    }
    dispatcher.stop().await;
}

#[tokio::test]
async fn lost_master_key_blocks_until_the_secret_is_rotated() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture
        .webhook_with(&receiver.url(), |created| {
            created.secret.master_key_id = "lost".to_owned();
        })
        .await;
    let events = fixture.grants(3).await;
    let dispatcher = fixture.dispatcher().await;
    let stored = fixture
        .eventually("the webhook is blocked", webhook, |it| {
            it.health.blocked_since.is_some()
        })
        .await;
    let error = stored.health.last_error.unwrap();
    assert!(error.contains("no key `lost`"), "{error}");
    assert!(receiver.received().is_empty());
    fixture.rotate(webhook).await;
    receiver.eventually_accepts(&events).await;
    fixture
        .eventually("the webhook is not blocked", webhook, |it| {
            it.health.blocked_since.is_none() && it.health.last_error.is_none()
        })
        .await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn illness_ends_when_no_message_waits() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(500)).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    fixture.grants(5).await;
    let dispatcher = fixture.dispatcher().await;
    fixture
        .eventually("the receiver is ill", webhook, |it| {
            it.health.ill_since.is_some()
        })
        .await;
    let wanted = WebhookChangeRequest {
        types: Some(vec!["link.deleted".to_owned()]),
        ..WebhookChangeRequest::default()
    };
    fixture.change(webhook, wanted).await;
    fixture.clock.advance(HOUR);
    fixture
        .eventually("the receiver is healthy", webhook, |it| {
            it.health.ill_since.is_none()
        })
        .await;
    fixture.eventually_at_end(webhook).await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn closed_port_is_an_illness() {
    let fixture = DispatchFixture::new().await;
    let address = linkledger_testing::free_address().unwrap();
    let url = format!("http://{address}/");
    let webhook = fixture.webhook(&url).await;
    let events = fixture.grants(5).await;
    let dispatcher = fixture.dispatcher().await;
    let stored = fixture
        .eventually("the receiver is ill", webhook, |it| {
            it.health.ill_since.is_some()
        })
        .await;
    assert_eq!(
        stored.health.last_error.as_deref(),
        Some("connection refused")
    );
    let receiver = Receiver::on(&address.to_string(), |_, _| Answer::Status(200)).await;
    eventually("all arrive", async || {
        fixture.clock.advance(Duration::from_mins(1));
        (receiver.accepted().len() >= events.len()).then_some(())
    })
    .await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn retries_of_an_illness_are_due_at_its_end() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(404)).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let refused = fixture.grants(1).await;
    let dispatcher = fixture.dispatcher().await;
    fixture
        .eventually_delivery((webhook, refused[0]), |it| it.attempts == 1)
        .await;
    receiver.answer(|_, _| Answer::Status(503));
    let later = fixture.grants(1).await;
    fixture
        .eventually("the receiver is ill", webhook, |it| {
            it.health.ill_since.is_some()
        })
        .await;
    fixture.clock.advance(Duration::from_secs(10));
    let retried = fixture
        .eventually_delivery((webhook, refused[0]), |it| it.last_status == Some(503))
        .await;
    assert!(retried.next_attempt_at > Some(fixture.clock.now() + HOUR / 2));
    receiver.answer(|_, _| Answer::Status(204));
    // Long before the next attempt of the retry.
    fixture.clock.advance(Duration::from_mins(2));
    receiver.eventually_accepts(&[refused[0], later[0]]).await;
    dispatcher.stop().await;
}
