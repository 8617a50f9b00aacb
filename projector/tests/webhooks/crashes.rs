//! A dispatcher that dies at any moment: the next one loses no message, and repeats few.

use std::time::Duration;

use crate::{
    arrival::repeats,
    dispatch_fixture::DispatchFixture,
    receiver::{Answer, Receiver},
};

/// Messages that are accepted and not stored yet, at most: the page of the dispatcher that died.
const REPEATS_OF_CRASH_MAX: usize = 32;

#[tokio::test]
async fn killed_dispatcher_loses_nothing_and_repeats_a_page_at_most() {
    for in_order in [false, true] {
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
        assert!(repeats <= crashes * REPEATS_OF_CRASH_MAX, "{repeats}");
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
