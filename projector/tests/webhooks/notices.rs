//! Operators are told when a webhook has had no success for an hour, and for a day: once each, until a success.

use std::time::Duration;

use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    id::EventId,
};
use linkledger_event_store::webhooks::deliveries;
use linkledger_testing::eventually;

use crate::{
    dispatch_fixture::DispatchFixture,
    process::Process,
    receiver::{Answer, Receiver},
};

/// Returns the hours of the notices in the log, in order.
async fn notices(fixture: &DispatchFixture) -> Vec<i32> {
    sqlx::query_scalar(
        "SELECT (payload ->> 'hours')::integer FROM event_store.events
         WHERE account_id = $1 AND type = 'WebhookFailing' ORDER BY position",
    )
    .bind(fixture.account_id.uuid())
    .fetch_all(fixture.pool())
    .await
    .unwrap()
}

async fn eventually_notices(fixture: &DispatchFixture, hours: &[i32]) {
    eventually("the log has the notices", async || {
        (notices(fixture).await == hours).then_some(())
    })
    .await;
}

#[tokio::test]
async fn notices_come_after_an_hour_and_a_day_and_anew_after_a_success() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(503)).await;
    let operators = Receiver::accepting().await;
    fixture.webhook_of_operators(&operators.url()).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let events = fixture.grants(3).await;
    let dispatcher = fixture.dispatcher().await;
    let fall_ill = async || {
        fixture
            .eventually("the receiver is ill", webhook, |it| {
                it.health.ill_since.is_some()
            })
            .await;
    };
    fall_ill().await;
    for (probes, minutes, hours) in [
        (1, 59, &[][..]),
        (2, 15, &[1][..]),
        (3, 30, &[1][..]),
        (4, 23 * 60, &[1, 24][..]),
        (5, 23 * 60, &[1, 24][..]),
    ] {
        fixture.clock.advance(Duration::from_mins(minutes));
        fixture
            .eventually("a probe failed", webhook, |it| it.health.probes == probes)
            .await;
        eventually_notices(&fixture, hours).await;
    }
    let told = fixture.events_of_type("WebhookFailing").await;
    operators.eventually_accepts(&told).await;
    let sent = operators.received();
    let sent: Vec<_> = sent
        .iter()
        .filter(|it| it.message_type() == "webhook.failing")
        .collect();
    assert_eq!(sent.len(), 2);
    for (message, hours) in sent.iter().zip([1, 24]) {
        let data = &message.message["data"];
        assert_eq!(data["hours"], hours);
        assert_eq!(data["webhook_id"], webhook.to_string());
        let since = data["failing_since"].as_str().unwrap();
        assert!(since.starts_with("2026-11-20T09:51:00"), "{since}");
    }

    receiver.answer(|_, _| Answer::Status(204));
    fixture.clock.advance(Duration::from_hours(2));
    receiver.eventually_accepts(&events).await;
    fixture
        .eventually("the notices are forgotten", webhook, |it| {
            it.health.failing_since.is_none() && it.health.notified_hours == 0
        })
        .await;
    assert_eq!(receiver.accepted().len(), events.len());

    receiver.answer(|_, _| Answer::Status(500));
    fixture.grants(1).await;
    fall_ill().await;
    fixture.clock.advance(Duration::from_mins(61));
    eventually_notices(&fixture, &[1, 24, 1]).await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn refusals_without_further_events_cause_notices_too() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(404)).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let events = fixture.grants(1).await;
    let dispatcher = fixture.dispatcher().await;
    // Further attempts alone, after 5 s, 5 and 30 minutes, 2, 5, 10 and 24 hours.
    for (attempts, minutes, hours) in [
        (1, 0, &[][..]),
        (2, 1, &[][..]),
        (3, 10, &[][..]),
        (4, 45, &[][..]),
        (5, 3 * 60, &[1][..]),
        (6, 7 * 60, &[1][..]),
        (7, 14 * 60, &[1, 24][..]),
    ] {
        fixture.clock.advance(Duration::from_mins(minutes));
        fixture
            .eventually_delivery((webhook, events[0]), |it| it.attempts == attempts)
            .await;
        eventually_notices(&fixture, hours).await;
    }
    dispatcher.stop().await;
}

#[tokio::test]
async fn notice_is_made_once_though_the_dispatcher_dies() {
    for point in ["webhooks.before_notice:1", "webhooks.notified:1"] {
        let fixture = DispatchFixture::new().await;
        let receiver = Receiver::answering(|_, _| Answer::Status(503)).await;
        let webhook = fixture.webhook(&receiver.url()).await;
        let events = fixture.grants(3).await;
        sqlx::query(
            "UPDATE event_store.webhook_health
             SET failing_since = now() - interval '2 hours', last_attempt_at = now() - interval '1 minute'
             WHERE webhook_id = $1",
        )
        .bind(webhook.uuid())
        .execute(fixture.pool())
        .await
        .unwrap();
        let process = Process::start_with(&fixture, &[("LINKLEDGER_STOP_AT", point)]);
        process.eventually_stands_still().await;
        process.kill();
        let process = Process::start(&fixture);
        fixture
            .eventually("a probe failed", webhook, |it| it.health.probes == 1)
            .await;
        eventually_notices(&fixture, &[1]).await;
        // The test ends the illness, so that what follows the probe is done when the messages arrive.
        receiver.answer(|_, _| Answer::Status(204));
        let now = SystemClock.now();
        let event_id = EventId::from_uuid(new_uuid(now));
        let test = deliveries::insert_test(fixture.pool(), webhook, event_id, now);
        test.await.unwrap();
        receiver.eventually_accepts(&events).await;
        assert_eq!(notices(&fixture).await, [1], "{point}");
        drop(process);
    }
}
