//! Messages with a schedule of their own: tests, and retries by request.

use std::time::Duration;

use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    id::EventId,
    webhook::{DeliveryState, DisabledReason},
};
use linkledger_event_store::webhooks::deliveries::{self, StoredDelivery};
use linkledger_testing::eventually;

use crate::{
    dispatch_fixture::DispatchFixture,
    receiver::{Answer, Receiver},
};

#[tokio::test]
async fn failing_test_never_makes_the_receiver_ill() {
    let mut fixture = DispatchFixture::new().await;
    fixture.attempt_time_max = Duration::from_secs(2);
    for answer in [Answer::Status(500), Answer::Hang] {
        let receiver = Receiver::answering(move |_, body| {
            if body["type"] == "webhook.test" {
                answer
            } else {
                Answer::Status(200)
            }
        })
        .await;
        let webhook = fixture.webhook(&receiver.url()).await;
        let dispatcher = fixture.dispatcher().await;
        let (event_id, now) = (test_event(), fixture.clock.now());
        let test = deliveries::insert_test(fixture.pool(), webhook, event_id, now).await;
        let test = test.unwrap();
        for attempts in 1..=2 {
            let delivery = fixture
                .eventually_delivery((webhook, event_id), |it| it.attempts == attempts)
                .await;
            assert_eq!(delivery.delivery_id, test);
            assert_eq!(delivery.state, DeliveryState::Waiting);
            assert!(delivery.next_attempt_at.unwrap() > fixture.clock.now());
            fixture.clock.advance(Duration::from_secs(7));
        }
        // Messages go on beside it.
        let events = fixture.grants(5).await;
        receiver.eventually_accepts(&events).await;
        assert!(fixture.stored(webhook).await.health.ill_since.is_none());
        fixture.set_enabled(webhook, false).await;
        dispatcher.stop().await;
    }
}

#[tokio::test]
async fn retries_end_in_failed_and_a_request_sends_again() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(422)).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let event = fixture.links(&["retried-link"]).await[0];
    let dispatcher = fixture.dispatcher().await;
    for attempts in 1..=8 {
        fixture
            .eventually_delivery((webhook, event), |it| it.attempts == attempts)
            .await;
        fixture.clock.advance(Duration::from_hours(30));
    }
    let failed = fixture
        .eventually_delivery((webhook, event), |it| it.state == DeliveryState::Failed)
        .await;
    let bodies: Vec<String> = receiver.received().into_iter().map(|it| it.body).collect();
    assert_eq!(bodies.len(), 8);
    // A message that is sent again has the same body, with its charge.
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    assert!(bodies[0].contains("\"charge\""));
    receiver.answer(|_, _| Answer::Status(200));
    let now = fixture.clock.now();
    let retried = deliveries::retry_now(fixture.pool(), webhook, failed.delivery_id, now).await;
    assert!(retried.unwrap().is_some());
    fixture
        .eventually_delivery((webhook, event), |it| it.state == DeliveryState::Delivered)
        .await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn accepted_test_ends_an_illness() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, body| {
        Answer::Status(if body["type"] == "webhook.test" {
            200
        } else {
            503
        })
    })
    .await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let events = fixture.grants(3).await;
    let dispatcher = fixture.dispatcher().await;
    fixture
        .eventually("the receiver is ill", webhook, |it| {
            it.health.ill_since.is_some()
        })
        .await;
    receiver.answer(|_, _| Answer::Status(200));
    let now = fixture.clock.now();
    let test = deliveries::insert_test(fixture.pool(), webhook, test_event(), now);
    test.await.unwrap();
    // Without a probe, for which the clock would have to move.
    receiver.eventually_accepts(&events).await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn test_that_is_answered_with_gone_disables() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(410)).await;
    let webhook = fixture
        .webhook_with(&receiver.url(), |created| {
            created.types = vec!["link.deleted".to_owned()];
        })
        .await;
    let dispatcher = fixture.dispatcher().await;
    let now = fixture.clock.now();
    let test = deliveries::insert_test(fixture.pool(), webhook, test_event(), now);
    test.await.unwrap();
    let stored = fixture
        .eventually("the webhook is disabled", webhook, |it| !it.webhook.enabled)
        .await;
    assert_eq!(stored.webhook.disabled_reason, Some(DisabledReason::Gone));
    dispatcher.stop().await;
}

#[tokio::test]
async fn delivered_tests_do_not_pile_up() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let now = fixture.clock.now();
    for _ in 0..400 {
        let test = deliveries::insert_test(fixture.pool(), webhook, test_event(), now);
        test.await.unwrap();
    }
    let dispatcher = fixture.dispatcher().await;
    eventually("all are sent, and few are kept", async || {
        let deliveries = fixture.deliveries(webhook).await;
        let is_delivered = |it: &StoredDelivery| it.state == DeliveryState::Delivered;
        let is_done = deliveries.iter().all(is_delivered) && deliveries.len() <= 200;
        is_done.then_some(())
    })
    .await;
    assert_eq!(receiver.accepted().len(), 400);
    dispatcher.stop().await;
}

fn test_event() -> EventId {
    EventId::from_uuid(new_uuid(SystemClock.now()))
}
