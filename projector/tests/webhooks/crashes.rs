//! A dispatcher that dies at any moment: the next one loses no message, and repeats few.

use std::time::Duration;

use linkledger_core::webhook::WebhookCreated;

use crate::{
    arrival::repeats,
    dispatch_fixture::DispatchFixture,
    process::Process,
    receiver::{Answer, Receiver},
};

#[tokio::test]
async fn killed_dispatcher_loses_nothing_and_repeats_a_page_at_most() {
    // Messages that are accepted and not stored yet: the page of the dispatcher that died.
    for (in_order, repeats_of_crash_max) in [(false, 32), (true, 100)] {
        let fixture = DispatchFixture::new().await;
        let receiver = Receiver::accepting().await;
        let webhook = fixture
            .webhook_with(&receiver.url(), |created| created.in_order = in_order)
            .await;
        let mut events = fixture.grants(150).await;
        let crashes = 4;
        for crash in 0..crashes {
            let dispatcher = fixture.dispatcher().await;
            let before = receiver.received().len();
            // Each crash hits another place of a page.
            receiver.eventually_receives(before + 1 + 11 * crash).await;
            dispatcher.kill();
            events.extend(fixture.grants(60).await);
        }
        let dispatcher = fixture.dispatcher().await;
        receiver.eventually_accepts(&events).await;
        fixture.eventually_at_end(webhook).await;
        dispatcher.stop().await;
        let repeats: usize = repeats(&receiver).values().map(|count| count - 1).sum();
        assert!(repeats <= crashes * repeats_of_crash_max, "{repeats}");
        if in_order {
            let mut first_attempts = receiver.accepted();
            let mut seen = std::collections::BTreeSet::new();
            first_attempts.retain(|event_id| seen.insert(*event_id));
            assert_eq!(first_attempts, events);
        }
    }
}

#[tokio::test]
async fn killed_dispatcher_keeps_refused_messages() {
    let fixture = DispatchFixture::new().await;
    let events = fixture.grants(60).await;
    let refused: Vec<String> = events.iter().step_by(7).map(ToString::to_string).collect();
    let receiver = Receiver::answering(move |id, _| {
        let is_refused = refused.iter().any(|it| it == id);
        Answer::Status(if is_refused { 400 } else { 200 })
    })
    .await;
    let webhook = fixture.webhook(&receiver.url()).await;
    for requests in [5, 30] {
        let dispatcher = fixture.dispatcher().await;
        receiver.eventually_receives(requests).await;
        dispatcher.kill();
    }
    let dispatcher = fixture.dispatcher().await;
    fixture.eventually_at_end(webhook).await;
    receiver.answer(|_, _| Answer::Status(200));
    fixture.clock.advance(Duration::from_mins(20));
    receiver.eventually_accepts(&events).await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn repeat_with_more_messages_has_another_id() {
    let fixture = DispatchFixture::new().await;
    let mut events = fixture.grants(5).await;
    let receiver = Receiver::accepting().await;
    let in_order = |created: &mut WebhookCreated| created.in_order = true;
    fixture.webhook_with(&receiver.url(), in_order).await;
    let stop_at = [("LINKLEDGER_STOP_AT", "webhooks.before_store:1")];
    let process = Process::start_with(&fixture, &stop_at);
    process.eventually_stands_still().await;
    assert_eq!(receiver.accepted(), events);
    process.kill();
    events.extend(fixture.grants(3).await);
    let process = Process::start(&fixture);
    receiver.eventually_accepts(&events).await;
    assert_eq!(receiver.accepted(), [&events[..5], &events[..]].concat());
    let messages = receiver.received();
    let ids = [&messages[0], &messages[5]].map(|it| it.headers["webhook-id"].clone());
    let (first, fifth, last) = (events[0], events[4], events[7]);
    assert_eq!(
        ids,
        [format!("{first}:{fifth}:5"), format!("{first}:{last}:8")]
    );
    drop(process);
}

#[tokio::test]
async fn stopped_dispatcher_repeats_nothing() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let events = fixture.grants(200).await;
    for requests in [3, 40, 90] {
        let dispatcher = fixture.dispatcher().await;
        receiver.eventually_receives(requests).await;
        dispatcher.stop().await;
    }
    let dispatcher = fixture.dispatcher().await;
    receiver.eventually_accepts(&events).await;
    fixture.eventually_at_end(webhook).await;
    dispatcher.stop().await;
    assert!(repeats(&receiver).values().all(|count| *count == 1));
}
