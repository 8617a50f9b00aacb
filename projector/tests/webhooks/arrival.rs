//! Every wanted message arrives, whatever the receiver answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use linkledger_core::{
    id::EventId,
    webhook::{DeliveryState, DisabledReason},
};
use linkledger_testing::eventually;

use crate::{
    dispatch_fixture::DispatchFixture,
    receiver::{Answer, Received, Receiver},
};

fn types(received: &[Received]) -> Vec<String> {
    received.iter().map(Received::message_type).collect()
}

#[tokio::test]
async fn wanted_events_arrive_with_their_data() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture
        .webhook_with(&receiver.url(), |created| {
            created.types = vec!["link.created".to_owned()];
        })
        .await;
    fixture.grants(3).await;
    let dispatcher = fixture.dispatcher().await;
    let links = fixture.links(&["first-link", "second-link"]).await;
    receiver.eventually_accepts(&links).await;
    fixture.eventually_at_end(webhook).await;
    let requests = receiver.received();
    assert_eq!(types(&requests), ["link.created", "link.created"]);
    for request in &requests {
        let data = &request.message["data"];
        assert!(data["link_id"].as_str().unwrap().starts_with("lnk_"));
        assert_eq!(data["charge"]["amount"], 1);
        let sequence = data["sequence"].as_i64().unwrap();
        assert_eq!(data["charge"]["sequence"], sequence + 1);
        assert_eq!(request.headers["content-type"], "application/json");
        let agent = request.headers["user-agent"].to_str().unwrap();
        assert!(agent.starts_with("linkledger/"));
        assert!(!request.headers.contains_key("accept-encoding"));
    }
    fixture
        .eventually("the success is stored", webhook, |it| {
            it.health.last_success_at.is_some()
        })
        .await;
    let listed = fixture.deliveries(webhook).await;
    assert!(listed.iter().all(|it| it.state == DeliveryState::Delivered));
    assert_eq!(listed.len(), links.len());
    dispatcher.stop().await;
}

#[tokio::test]
async fn low_balance_arrives_once_beside_the_created_link() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let balance = 1_000_000;
    fixture.set_thresholds(&[balance - 1, balance - 3]).await;
    let webhook = fixture
        .webhook_with(&receiver.url(), |created| {
            created.types = vec!["link.created".to_owned(), "credits.low".to_owned()];
            created.in_order = true;
        })
        .await;
    let low_only = Receiver::accepting().await;
    let of_low_only = fixture
        .webhook_with(&low_only.url(), |created| {
            created.types = vec!["credits.low".to_owned()];
            created.in_order = true;
        })
        .await;
    let dispatcher = fixture.dispatcher().await;
    fixture.links(&["first", "second", "third", "fourth"]).await;
    fixture.eventually_at_end(webhook).await;
    fixture.eventually_at_end(of_low_only).await;
    let requests = receiver.received();
    let expected = [
        "link.created",
        "link.created",
        "credits.low",
        "link.created",
        "link.created",
        "credits.low",
    ];
    assert_eq!(types(&requests), expected);
    let charges = fixture.events_of_type("CreditsCharged").await;
    let low: Vec<_> = requests
        .iter()
        .filter(|it| it.message_type() == "credits.low")
        .collect();
    for (request, (charge, threshold)) in low.iter().zip([(1, balance - 1), (3, balance - 3)]) {
        assert_eq!(request.event_id, charges[charge]);
        let data = &request.message["data"];
        assert_eq!(data["low_balance"], threshold);
        assert_eq!(data["balance_after"], threshold - 1);
        assert_eq!(data.get("reason"), None);
    }
    // The message about the link has the same charge.
    let (link, charge) = (&requests[1].message, &low[0].message);
    assert_eq!(link["data"]["charge"], charge["data"]);
    assert_eq!(low_only.accepted(), [charges[1], charges[3]]);
    dispatcher.stop().await;
}

#[tokio::test]
async fn operators_get_the_events_of_all_accounts() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    fixture.webhook_of_operators(&receiver.url()).await;
    let dispatcher = fixture.dispatcher().await;
    let mut events = fixture.grants(40).await;
    for _ in 0..5 {
        let other = linkledger_testing::account(fixture.pool(), 10).await;
        events.extend(fixture.grants_of(other, 3).await);
    }
    events.extend(fixture.links(&["link-of-operators"]).await);
    receiver.eventually_accepts(&events).await;
    assert_eq!(receiver.accepted().len(), events.len());
    dispatcher.stop().await;
}

#[tokio::test]
async fn receiver_that_fails_a_third_gets_everything() {
    let fixture = DispatchFixture::new().await;
    let requests = AtomicUsize::new(0);
    let receiver = Receiver::answering(move |_, _| {
        let nth = requests.fetch_add(1, Ordering::SeqCst);
        Answer::Status(if nth % 10 < 3 { 500 } else { 200 })
    })
    .await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let dispatcher = fixture.dispatcher().await;
    let events = fixture.grants(60).await;
    let wanted: BTreeSet<EventId> = events.iter().copied().collect();
    eventually("all events are accepted", async || {
        // Far less than five days before each probe.
        fixture.clock.advance(Duration::from_mins(1));
        let accepted: BTreeSet<EventId> = receiver.accepted().into_iter().collect();
        (accepted == wanted).then_some(())
    })
    .await;
    let requests = receiver.received();
    let failures = requests.iter().filter(|it| !it.is_accepted()).count();
    // Of a page, only what was in flight beside a failure is sent again.
    assert!(receiver.accepted().len() <= events.len() + 8 * failures);
    fixture
        .eventually("the receiver is healthy", webhook, |stored| {
            stored.health.ill_since.is_none()
        })
        .await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn refused_message_holds_up_no_other() {
    for (answer, in_order) in [(Answer::Status(400), false), (Answer::Status(302), true)] {
        let fixture = DispatchFixture::new().await;
        let events = fixture.grants(50).await;
        let refused = events[2].to_string();
        let receiver = Receiver::answering(move |id, _| {
            if id == refused {
                answer
            } else {
                Answer::Status(200)
            }
        })
        .await;
        let webhook = fixture
            .webhook_with(&receiver.url(), |created| created.in_order = in_order)
            .await;
        let dispatcher = fixture.dispatcher().await;
        fixture.eventually_at_end(webhook).await;
        if in_order {
            // The request with all was refused, and each message was sent alone, in order.
            let attempts = receiver.received();
            let attempts = attempts.chunk_by(|it, next| it.items == next.items);
            let ids = attempts.map(|it| it.iter().map(|it| it.event_id).collect::<Vec<_>>());
            assert_eq!(ids.collect::<Vec<_>>(), [events.clone(), events.clone()]);
        }
        assert_eq!(receiver.accepted().len(), events.len() - 1);
        let kept = (webhook, events[2]);
        let delivery = fixture
            .eventually_delivery(kept, |it| it.attempts == 1)
            .await;
        assert_eq!(delivery.state, DeliveryState::Waiting);
        assert_eq!(delivery.response.as_deref(), Some("an answer for people"));
        let error = delivery.last_error.unwrap();
        assert!(!error.contains("secret-of-the-address"), "{error}");
        // Later the receiver takes the message.
        receiver.answer(|_, _| Answer::Status(200));
        fixture.clock.advance(Duration::from_secs(10));
        let delivery = fixture
            .eventually_delivery(kept, |it| it.state == DeliveryState::Delivered)
            .await;
        assert_eq!(delivery.attempts, 2);
        assert!(fixture.stored(webhook).await.health.ill_since.is_none());
        dispatcher.stop().await;
    }
}

#[tokio::test]
async fn redirect_is_refused_and_never_followed() {
    let fixture = DispatchFixture::new().await;
    let target = Receiver::accepting().await;
    let to = target.address;
    let receiver = Receiver::answering(move |_, _| Answer::Redirect(to)).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let events = fixture.grants(1).await;
    let dispatcher = fixture.dispatcher().await;
    let delivery = fixture
        .eventually_delivery((webhook, events[0]), |it| it.attempts == 1)
        .await;
    assert_eq!(delivery.last_status, Some(302));
    dispatcher.stop().await;
    assert!(target.received().is_empty());
}

#[tokio::test]
async fn gone_disables_and_enabling_goes_on() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::answering(|_, _| Answer::Status(410)).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let events = fixture.grants(20).await;
    let dispatcher = fixture.dispatcher().await;
    let stored = fixture
        .eventually("the webhook is disabled", webhook, |it| !it.webhook.enabled)
        .await;
    assert_eq!(stored.webhook.disabled_reason, Some(DisabledReason::Gone));
    assert_eq!(fixture.events_of_type("WebhookDisabled").await.len(), 1);
    let later = fixture.grants(5).await;
    receiver.answer(|_, _| Answer::Status(200));
    fixture.set_enabled(webhook, true).await;
    receiver.eventually_accepts(&[events, later].concat()).await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn in_order_receiver_gets_one_at_a_time_in_order() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture
        .webhook_with(&receiver.url(), |created| created.in_order = true)
        .await;
    let dispatcher = fixture.dispatcher().await;
    let mut events = Vec::new();
    for _ in 0..20 {
        events.extend(fixture.grants(30).await);
    }
    receiver.eventually_accepts(&events).await;
    assert_eq!(receiver.accepted(), events);
    assert_eq!(receiver.take_open_max(), 1);
    fixture.eventually_at_end(webhook).await;
    // Of the delivered ones, the last are kept, and those of the pages since.
    let kept = fixture.deliveries(webhook).await.len();
    assert!((100..=300).contains(&kept), "{kept}");
    dispatcher.stop().await;
}

/// Returns how often each event was accepted.
pub(crate) fn repeats(receiver: &Receiver) -> BTreeMap<EventId, usize> {
    let mut counts = BTreeMap::new();
    for event_id in receiver.accepted() {
        *counts.entry(event_id).or_default() += 1;
    }
    counts
}
