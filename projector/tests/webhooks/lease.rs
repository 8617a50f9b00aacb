//! Of two dispatchers, one sends; the other takes over after a kill or a freeze.

use std::time::Duration;

use linkledger_testing::{eventually, eventually_within};
use sqlx::PgPool;

use crate::{
    arrival::repeats, dispatch_fixture::DispatchFixture, process::Process, receiver::Receiver,
};

/// Longest time from the end of a dispatcher to a message of the other: the lease expires after 3 s, and 5 s are
/// promised. The rest is for a busy machine.
const TAKE_OVER_TIME_MAX: Duration = Duration::from_secs(15);

/// Returns the name of the dispatcher that has the lease.
async fn owner(pool: &PgPool) -> Option<String> {
    sqlx::query_scalar(
        "SELECT owner FROM event_store.webhook_dispatcher
         WHERE owner IS NOT NULL AND expires_at > now()",
    )
    .fetch_optional(pool)
    .await
    .unwrap()
}

/// Waits until the process has the lease.
async fn eventually_leads(fixture: &DispatchFixture, process: &Process) {
    eventually_within(
        TAKE_OVER_TIME_MAX,
        "the process has the lease",
        async || {
            let owner = owner(fixture.pool()).await?;
            process.is(&owner).then_some(())
        },
    )
    .await;
}

#[tokio::test]
async fn two_dispatchers_send_each_message_once() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let first = fixture.dispatcher().await;
    let mut events = fixture.grants(50).await;
    receiver.eventually_accepts(&events).await;
    let leader = owner(fixture.pool()).await;
    let second = fixture.dispatcher().await;
    for _ in 0..10 {
        events.extend(fixture.grants(20).await);
        receiver.eventually_accepts(&events).await;
    }
    fixture.eventually_at_end(webhook).await;
    assert_eq!(owner(fixture.pool()).await, leader);
    assert!(repeats(&receiver).values().all(|count| *count == 1));
    // A stop gives the lease up at once.
    first.stop().await;
    let events = fixture.grants(20).await;
    receiver.eventually_accepts(&events).await;
    assert_ne!(owner(fixture.pool()).await, leader);
    second.stop().await;
    assert_eq!(owner(fixture.pool()).await, None);
}

#[tokio::test]
async fn second_process_takes_over_after_a_kill() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    fixture.webhook(&receiver.url()).await;
    let first = Process::start(&fixture);
    let events = fixture.grants(20).await;
    receiver.eventually_accepts(&events).await;
    eventually_leads(&fixture, &first).await;
    let second = Process::start(&fixture);
    eventually_reachable_by_two(&fixture).await;
    first.kill();
    let later = fixture.grants(20).await;
    arrive_in_time(&receiver, later.len() + events.len()).await;
    receiver.eventually_accepts(&later).await;
    eventually_leads(&fixture, &second).await;
}

#[tokio::test]
async fn frozen_process_sends_nothing_after_it_wakes() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let first = Process::start(&fixture);
    let events = fixture.grants(20).await;
    receiver.eventually_accepts(&events).await;
    fixture.eventually_at_end(webhook).await;
    eventually_leads(&fixture, &first).await;
    let second = Process::start(&fixture);
    eventually_reachable_by_two(&fixture).await;
    first.freeze();
    let later = fixture.grants(20).await;
    arrive_in_time(&receiver, later.len() + events.len()).await;
    receiver.eventually_accepts(&later).await;
    eventually_leads(&fixture, &second).await;
    first.wake();
    for _ in 0..10 {
        let events = fixture.grants(20).await;
        receiver.eventually_accepts(&events).await;
    }
    fixture.eventually_at_end(webhook).await;
    let leader = owner(fixture.pool()).await.unwrap();
    assert!(second.is(&leader));
    // Nothing was in flight at the freeze, so nothing came twice.
    assert!(repeats(&receiver).values().all(|count| *count == 1));
}

async fn arrive_in_time(receiver: &Receiver, requests: usize) {
    eventually_within(TAKE_OVER_TIME_MAX, "the other process sends", async || {
        (receiver.received().len() >= requests).then_some(())
    })
    .await;
}

/// Waits until two processes ask for the lease: each has sessions with the database.
async fn eventually_reachable_by_two(fixture: &DispatchFixture) {
    let sessions = async || -> i64 {
        sqlx::query_scalar(
            "SELECT count(DISTINCT pid) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'linkledger'
               AND query LIKE '%webhook_dispatcher%'",
        )
        .fetch_one(fixture.pool())
        .await
        .unwrap()
    };
    eventually("both ask for the lease", async || {
        (sessions().await >= 2).then_some(())
    })
    .await;
}
