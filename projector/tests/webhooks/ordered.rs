//! A webhook with `in_order` gets several messages a request.

use std::time::Duration;

use linkledger_core::{
    credits::CreditsEvent,
    event::Event,
    id::{EventId, WebhookId},
};
use linkledger_testing::{append_events, events::granted, eventually};

use crate::{
    dispatch_fixture::DispatchFixture,
    receiver::{Answer, Received, Receiver},
};

/// Maximum number of bytes of a request.
const BYTES_MAX: usize = 200_000;

async fn webhook_in_order(fixture: &DispatchFixture, receiver: &Receiver) -> WebhookId {
    fixture
        .webhook_with(&receiver.url(), |created| created.in_order = true)
        .await
}

/// Returns the messages of each request.
fn requests(received: &[Received]) -> Vec<Vec<EventId>> {
    let mut rest = received;
    let mut requests = Vec::new();
    while let Some(first) = rest.first() {
        let (request, later) = rest.split_at(first.items);
        requests.push(request.iter().map(|it| it.event_id).collect());
        rest = later;
    }
    requests
}

#[tokio::test]
async fn request_has_up_to_a_hundred_messages() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let events = fixture.grants(250).await;
    webhook_in_order(&fixture, &receiver).await;
    let dispatcher = fixture.dispatcher().await;
    receiver.eventually_accepts(&events).await;
    dispatcher.stop().await;
    let chunks: Vec<Vec<EventId>> = events.chunks(100).map(<[EventId]>::to_vec).collect();
    assert_eq!(requests(&receiver.received()), chunks);
}

#[tokio::test]
async fn request_has_a_maximal_size_that_one_message_may_exceed() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let mut grants = vec![large_grant(&fixture, 9_000); 60];
    grants[40] = large_grant(&fixture, BYTES_MAX);
    append_events(fixture.pool(), fixture.account_id, &grants).await;
    let events = fixture.events_of_type("CreditsGranted").await;
    webhook_in_order(&fixture, &receiver).await;
    let dispatcher = fixture.dispatcher().await;
    receiver.eventually_accepts(&events).await;
    dispatcher.stop().await;
    let messages = receiver.received();
    assert_eq!(receiver.accepted(), events);
    for message in &messages {
        let is_within = message.body.len() <= BYTES_MAX;
        assert_eq!(is_within, message.event_id != events[40]);
    }
    let counts: Vec<usize> = requests(&messages).iter().map(Vec::len).collect();
    assert_eq!(counts, [21, 19, 1, 19]);
}

fn large_grant(fixture: &DispatchFixture, bytes: usize) -> Event {
    let mut event = granted(fixture.account_id, 1, 1_000_000);
    if let Event::Credits(CreditsEvent::Granted(granted)) = &mut event {
        granted.description = Some("x".repeat(bytes));
    }
    event
}

#[tokio::test]
async fn refused_message_is_found_and_the_order_is_kept() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let events = fixture.grants(130).await;
    let refused = events[7].to_string();
    receiver.answer(move |id, _| Answer::Status(if id == refused { 422 } else { 200 }));
    let webhook = webhook_in_order(&fixture, &receiver).await;
    let dispatcher = fixture.dispatcher().await;
    fixture.eventually_at_end(webhook).await;
    let requests = requests(&receiver.received());
    // The page, each of its messages alone, and the next page.
    assert_eq!(requests[0], events[..100]);
    let alone: Vec<Vec<EventId>> = events[..100].iter().map(|id| vec![*id]).collect();
    assert_eq!(requests[1..101], alone);
    assert_eq!(requests[101..].concat(), events[100..]);
    let kept = fixture.deliveries(webhook).await;
    let waiting = kept.iter().filter(|it| it.next_attempt_at.is_some());
    let waiting: Vec<EventId> = waiting.map(|it| it.event_id).collect();
    assert_eq!(waiting, [events[7]]);
    // A delivery with a schedule of its own is the message itself.
    receiver.answer(|_, _| Answer::Status(200));
    fixture.clock.advance(Duration::from_secs(10));
    receiver.eventually_accepts(&events).await;
    let retried = receiver.received().pop().unwrap();
    assert_eq!((retried.event_id, retried.items), (events[7], 0));
    dispatcher.stop().await;
}

#[tokio::test]
async fn probe_has_one_message() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(503)).await;
    let events = fixture.grants(20).await;
    let webhook = webhook_in_order(&fixture, &receiver).await;
    let dispatcher = fixture.dispatcher().await;
    fixture
        .eventually("the receiver is ill", webhook, |it| {
            it.health.ill_since.is_some()
        })
        .await;
    fixture.clock.advance(Duration::from_mins(1));
    fixture
        .eventually("a probe failed", webhook, |it| it.health.probes == 1)
        .await;
    receiver.answer(|_, _| Answer::Status(204));
    fixture.clock.advance(Duration::from_hours(1));
    receiver.eventually_accepts(&events).await;
    dispatcher.stop().await;
    // The request that failed had 20.
    let (first, second, third) = (&events[..1], &events[1..11], &events[11..]);
    let expected = [&events[..], first, first, second, third].map(<[EventId]>::to_vec);
    assert_eq!(requests(&receiver.received()), expected);
}

#[tokio::test]
async fn receiver_that_cannot_bear_many_messages_gets_fewer_a_request() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    receiver.fail_beyond(10);
    let events = fixture.grants(200).await;
    webhook_in_order(&fixture, &receiver).await;
    let dispatcher = fixture.dispatcher().await;
    eventually("all arrive", async || {
        // The next probe is due.
        fixture.clock.advance(Duration::from_mins(1));
        (receiver.accepted().len() >= events.len()).then_some(())
    })
    .await;
    dispatcher.stop().await;
    assert_eq!(receiver.accepted(), events);
    let sizes: Vec<usize> = requests(&receiver.received())
        .iter()
        .map(Vec::len)
        .collect();
    // Each illness halves the size, and ends with a probe.
    let mut expected = vec![100, 1, 50, 1, 25, 1, 12, 1];
    // What is accepted doubles it for the next page.
    expected.extend([6; 16]);
    expected.extend([4, 12, 1]);
    expected.extend([6; 15]);
    expected.push(5);
    assert_eq!(sizes, expected);
}
