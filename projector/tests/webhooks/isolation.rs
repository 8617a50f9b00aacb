//! A slow or dead receiver delays no other.

use std::time::{Duration, Instant};

use crate::{
    dispatch_fixture::DispatchFixture,
    receiver::{Answer, Receiver},
};

#[tokio::test]
async fn dead_receivers_delay_no_other() {
    let mut fixture = DispatchFixture::new().await;
    fixture.attempt_time_max = Duration::from_secs(3);
    let mut dead = Vec::new();
    for _ in 0..20 {
        let account_id = linkledger_testing::account(fixture.pool(), 1_000).await;
        let receiver = Receiver::answering(|_, _| Answer::Hang).await;
        let webhook = fixture.webhook_of(account_id, &receiver.url()).await;
        fixture.grants_of(account_id, 50).await;
        dead.push((receiver, webhook));
    }
    let receiver = Receiver::accepting().await;
    fixture.webhook(&receiver.url()).await;
    let mut events = fixture.grants(50).await;
    let dispatcher = fixture.dispatcher().await;
    receiver.eventually_accepts(&events).await;
    for (dead, webhook) in &dead {
        fixture
            .eventually("the receiver is ill", *webhook, |it| {
                it.health.ill_since.is_some()
            })
            .await;
        // No more than the window, and nothing once it is ill.
        assert!(dead.take_open_max() <= 8);
    }
    fixture.clock.advance(Duration::from_mins(1));
    for (dead, webhook) in &dead {
        fixture
            .eventually("a probe failed", *webhook, |it| it.health.probes == 1)
            .await;
        assert!(dead.take_open_max() <= 1);
    }
    events = fixture.grants(20).await;
    receiver.eventually_accepts(&events).await;
    dispatcher.stop().await;
}

#[tokio::test]
async fn slow_accounts_delay_no_other() {
    let fixture = DispatchFixture::new().await;
    let mut slow = Vec::new();
    // Each account wants more requests at a time than its share.
    for _ in 0..24 {
        let account_id = linkledger_testing::account(fixture.pool(), 1_000).await;
        let receiver = Receiver::answering(|_, _| Answer::Hang).await;
        for _ in 0..3 {
            fixture.webhook_of(account_id, &receiver.url()).await;
        }
        fixture.grants_of(account_id, 10).await;
        slow.push(receiver);
    }
    let dispatcher = fixture.dispatcher().await;
    for receiver in &slow {
        receiver.eventually_receives(16).await;
        assert!(receiver.take_open_max() <= 16);
    }
    let receiver = Receiver::accepting().await;
    fixture.webhook(&receiver.url()).await;
    let begun = Instant::now();
    let events = fixture.grants(50).await;
    receiver.eventually_accepts(&events).await;
    // Before the first slow request has ended.
    assert!(begun.elapsed() < fixture.attempt_time_max);
    dispatcher.kill();
}

#[tokio::test]
async fn timeout_says_so_without_the_address() {
    let mut fixture = DispatchFixture::new().await;
    fixture.attempt_time_max = Duration::from_secs(1);
    let receiver = Receiver::answering(|_, _| Answer::Hang).await;
    let webhook = fixture.webhook(&receiver.url()).await;
    fixture.grants(1).await;
    let dispatcher = fixture.dispatcher().await;
    let stored = fixture
        .eventually("the receiver is ill", webhook, |it| {
            it.health.ill_since.is_some()
        })
        .await;
    let error = stored.health.last_error.unwrap();
    assert_eq!(error, "no answer before the timeout");
    linkledger_testing::eventually("the connection is closed", async || {
        (receiver.open() == 0).then_some(())
    })
    .await;
    dispatcher.stop().await;
}
