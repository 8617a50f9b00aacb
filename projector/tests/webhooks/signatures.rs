//! Messages are signed by Standard Webhooks 1.0, also with the old secret during a rotation.

use std::time::Duration;

use linkledger_core::{
    clock::Clock as _,
    event::Event,
    id::WebhookId,
    webhook::{SecretVersion, WebhookEvent},
};
use linkledger_testing::append_events;
use standardwebhooks::Webhook as Verifier;

use crate::{
    dispatch_fixture::DispatchFixture,
    receiver::{Received, Receiver},
};

/// Returns the signatures of a request, and asserts that its time is that of the fixture's clock.
fn signatures(fixture: &DispatchFixture, request: &Received) -> Vec<String> {
    let header = |name: &str| request.headers[name].to_str().unwrap().to_owned();
    let seconds: i64 = header("webhook-timestamp").parse().unwrap();
    assert_eq!(seconds, fixture.clock.now().unix_timestamp());
    let signatures = header("webhook-signature");
    signatures.split(' ').map(ToOwned::to_owned).collect()
}

/// Returns the signature that a receiver with this version of the secret expects.
fn expected(
    fixture: &DispatchFixture,
    webhook_id: WebhookId,
    (master_key_id, generation): (&str, i32),
    request: &Received,
) -> String {
    let version = SecretVersion {
        master_key_id: master_key_id.to_owned(),
        generation,
    };
    let secret = fixture.keys.secret(webhook_id, &version).unwrap().reveal();
    let verifier = Verifier::new(&secret).unwrap();
    let seconds = fixture.clock.now().unix_timestamp();
    let id = request.event_id.to_string();
    verifier
        .sign(&id, seconds, request.body.as_bytes())
        .unwrap()
}

#[tokio::test]
async fn rotation_signs_with_both_secrets_until_its_end() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let dispatcher = fixture.dispatcher().await;
    let sent = async || {
        let events = fixture.grants(1).await;
        receiver.eventually_accepts(&events).await;
        receiver.received().pop().unwrap()
    };
    let (first, second) = (("first", 1), ("second", 2));
    let request = sent().await;
    let of = |version, request: &Received| expected(&fixture, webhook, version, request);
    assert_eq!(signatures(&fixture, &request), [of(first, &request)]);

    let until = fixture.clock.now() + Duration::from_hours(1);
    let stored = fixture.stored(webhook).await;
    let rotated = stored.webhook.decide_rotate("second", until);
    let rotated = Event::Webhook(WebhookEvent::SecretRotated(rotated));
    append_events(fixture.pool(), fixture.account_id, &[rotated]).await;
    let request = sent().await;
    let both = [of(second, &request), of(first, &request)];
    assert_eq!(signatures(&fixture, &request), both);

    fixture.clock.advance(Duration::from_hours(1));
    let request = sent().await;
    assert_eq!(signatures(&fixture, &request), [of(second, &request)]);
    dispatcher.stop().await;
}
