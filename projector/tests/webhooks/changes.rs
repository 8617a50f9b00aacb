//! Changes of a webhook while events flow, and replays.

use std::collections::BTreeSet;

use linkledger_core::{
    id::EventId,
    shard::Shard,
    webhook::{DeliveryState, WebhookChangeRequest},
};
use linkledger_event_store::{
    log::feed::FeedPlace,
    webhooks::cursors::{ShardPlace, start_replay_in_tx},
};
use linkledger_testing::eventually;

use crate::{
    arrival::repeats,
    dispatch_fixture::DispatchFixture,
    process::Process,
    receiver::{Answer, Receiver},
};

/// Rounds of events and changes.
const ROUNDS: usize = 12;

#[tokio::test]
async fn event_after_a_change_of_types_is_chosen_by_the_new_ones() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture
        .webhook_with(&receiver.url(), |created| {
            created.types = vec!["link.created".to_owned()];
        })
        .await;
    let dispatcher = fixture.dispatcher().await;
    let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let wants_grants = round % 2 == 0;
        let name = if wants_grants {
            "credits.granted"
        } else {
            "link.created"
        };
        // Events that may be chosen by either keep the dispatcher busy.
        fixture.grants(40).await;
        let types = WebhookChangeRequest {
            types: Some(vec![name.to_owned()]),
            ..WebhookChangeRequest::default()
        };
        fixture.change(webhook, types).await;
        let events = fixture.grants(3).await;
        if wants_grants {
            wanted.extend(events);
        } else {
            unwanted.extend(events);
        }
        // The next change comes after these events.
        fixture.eventually_at_end(webhook).await;
    }
    receiver.eventually_accepts(&wanted).await;
    dispatcher.stop().await;
    let accepted: BTreeSet<EventId> = receiver.accepted().into_iter().collect();
    assert!(unwanted.iter().all(|event| !accepted.contains(event)));
}

#[tokio::test]
async fn types_are_read_after_the_events_that_they_choose() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture
        .webhook_with(&receiver.url(), |created| {
            created.types = vec!["link.created".to_owned()];
        })
        .await;
    // Between the two reads of the first page.
    let stop_at = [("LINKLEDGER_STOP_AT", "webhooks.events_read:1")];
    let process = Process::start_with(&fixture, &stop_at);
    process.eventually_stands_still().await;
    let wanted = WebhookChangeRequest {
        types: Some(vec!["credits.granted".to_owned()]),
        ..WebhookChangeRequest::default()
    };
    fixture.change(webhook, wanted).await;
    let events = fixture.grants(3).await;
    process.wake();
    receiver.eventually_accepts(&events).await;
}

#[tokio::test]
async fn replay_sends_the_range_again_beside_new_events() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let before = fixture.grants(10).await;
    let begin = last_place(&fixture).await;
    let range = fixture.grants(100).await;
    let end = last_place(&fixture).await;
    let after = fixture.grants(10).await;
    let dispatcher = fixture.dispatcher().await;
    let all = [before.clone(), range.clone(), after.clone()].concat();
    receiver.eventually_accepts(&all).await;
    fixture.eventually_at_end(webhook).await;
    let shard = Shard::of(fixture.account_id);
    let start = ShardPlace {
        shard,
        place: begin,
    };
    let mut session = fixture.pool().acquire().await.unwrap();
    let places = [(start, end.position)];
    let started = start_replay_in_tx(&mut session, webhook, &places).await;
    assert!(started.unwrap());
    drop(session);
    let new = fixture.grants(20).await;
    receiver.eventually_accepts(&new).await;
    eventually("the replay has ended", async || {
        let cursors = fixture.cursors(webhook).await;
        cursors.iter().all(|it| !it.is_replay).then_some(())
    })
    .await;
    dispatcher.stop().await;
    let counts = repeats(&receiver);
    assert!(range.iter().all(|event| counts[event] == 2));
    let once = [before, after, new].concat();
    assert!(once.iter().all(|event| counts[event] == 1));
}

#[tokio::test]
async fn paused_webhook_sends_nothing_and_loses_nothing() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let dispatcher = fixture.dispatcher().await;
    let events = fixture.grants(5).await;
    receiver.eventually_accepts(&events).await;
    fixture.eventually_at_end(webhook).await;
    fixture.set_enabled(webhook, false).await;
    let later = fixture.grants(40).await;
    // Another receiver shows that the dispatcher has gone on.
    let other = Receiver::accepting().await;
    fixture.webhook(&other.url()).await;
    other.eventually_accepts(&later).await;
    assert_eq!(receiver.accepted(), events);
    fixture.set_enabled(webhook, true).await;
    receiver.eventually_accepts(&later).await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn unreadable_event_holds_the_cursor_until_it_is_readable() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(200)).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let events = fixture.grants(9).await;
    rename(&fixture, events[4], "CreditsTeleported").await;
    let dispatcher = fixture.dispatcher().await;
    receiver.eventually_accepts(&events[..4]).await;
    fixture
        .eventually_delivery((webhook, events[3]), |it| {
            it.state == DeliveryState::Delivered
        })
        .await;
    assert_eq!(receiver.received().len(), 4);
    let stored = fixture
        .eventually("the webhook is blocked", webhook, |it| {
            it.health.blocked_since.is_some()
        })
        .await;
    let error = stored.health.last_error.unwrap();
    assert!(error.contains("cannot be read"), "{error}");
    rename(&fixture, events[4], "CreditsGranted").await;
    receiver.eventually_accepts(&events).await;
    fixture
        .eventually("the webhook is not blocked", webhook, |it| {
            it.health.blocked_since.is_none()
        })
        .await;
    dispatcher.stop().await;
}

/// Returns the place after the last event of the account.
async fn last_place(fixture: &DispatchFixture) -> FeedPlace {
    let (position, version) = sqlx::query_as(
        "SELECT max(position), max(version) FILTER (WHERE stream_id = account_id)
         FROM event_store.events WHERE account_id = $1",
    )
    .bind(fixture.account_id.uuid())
    .fetch_one(fixture.pool())
    .await
    .unwrap();
    FeedPlace { position, version }
}

/// Gives an event another type, as if a later release had written it.
async fn rename(fixture: &DispatchFixture, event_id: EventId, event_type: &str) {
    let mut session = fixture.pool().acquire().await.unwrap();
    sqlx::raw_sql("SET session_replication_role = replica")
        .execute(&mut *session)
        .await
        .unwrap();
    sqlx::query("UPDATE event_store.events SET type = $2 WHERE event_id = $1")
        .bind(event_id.uuid())
        .bind(event_type)
        .execute(&mut *session)
        .await
        .unwrap();
    sqlx::raw_sql("RESET session_replication_role")
        .execute(&mut *session)
        .await
        .unwrap();
}
