//! A database that is away delays messages, and loses none.

use linkledger_testing::{TestDatabase, eventually, forget_events_after};

use crate::{arrival::repeats, dispatch_fixture::DispatchFixture, receiver::Receiver};

#[tokio::test]
async fn restarted_database_loses_no_message() {
    let (database, mut server) = TestDatabase::with_own_server().await;
    let fixture = DispatchFixture::on(database).await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let mut events = fixture.grants(300).await;
    let dispatcher = fixture.dispatcher().await;
    for requests in [10, 150] {
        receiver.eventually_receives(requests).await;
        server.stop().await.unwrap();
        server.start_again().await.unwrap();
        eventually("the database answers", async || {
            sqlx::query("SELECT 1").execute(fixture.pool()).await.ok()
        })
        .await;
        events.extend(fixture.grants(20).await);
    }
    receiver.eventually_accepts(&events).await;
    fixture.eventually_at_end(webhook).await;
    // The same process keeps what it has sent until it is stored.
    let repeats: usize = repeats(&receiver).values().map(|count| count - 1).sum();
    assert!(repeats <= 2 * 32, "{repeats}");
    dispatcher.stop().await;
}

#[tokio::test]
async fn locked_cursor_delays_the_store_and_repeats_nothing() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let mut lock = fixture.pool().acquire().await.unwrap();
    let begin = "BEGIN; SELECT FROM event_store.webhook_cursors FOR UPDATE";
    sqlx::raw_sql(begin).execute(&mut *lock).await.unwrap();
    let events = fixture.grants(64).await;
    let dispatcher = fixture.dispatcher().await;
    // The first of the 32 events of the page is that of the webhook.
    receiver.eventually_receives(31).await;
    // The store fails by its lock timeout, several times; the page waits for it.
    eventually("the store has waited", async || {
        let waits = linkledger_testing::sessions_waiting_for_lock(fixture.pool()).await;
        (waits > 0).then_some(())
    })
    .await;
    assert_eq!(receiver.received().len(), 31);
    sqlx::raw_sql("ROLLBACK").execute(&mut *lock).await.unwrap();
    drop(lock);
    receiver.eventually_accepts(&events).await;
    fixture.eventually_at_end(webhook).await;
    assert!(repeats(&receiver).values().all(|count| *count == 1));
    dispatcher.stop().await;
}

#[tokio::test]
async fn restored_log_is_read_anew_by_the_running_dispatcher() {
    let fixture = DispatchFixture::new().await;
    let receiver = Receiver::accepting().await;
    let webhook = fixture.webhook(&receiver.url()).await;
    let kept = fixture.grants(10).await;
    let position = fixture.last_position().await;
    let lost = fixture.grants(15).await;
    let mut lock = fixture.pool().acquire().await.unwrap();
    let begin = "BEGIN; SELECT FROM event_store.webhook_cursors FOR UPDATE";
    sqlx::raw_sql(begin).execute(&mut *lock).await.unwrap();
    let dispatcher = fixture.dispatcher().await;
    // All is sent, and the store waits.
    receiver
        .eventually_accepts(&[kept, lost.clone()].concat())
        .await;
    forget_events_after(fixture.pool(), fixture.account_id, position).await;
    let new = fixture.grants(40).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut *lock).await.unwrap();
    drop(lock);
    receiver.eventually_accepts(&new).await;
    fixture.eventually_at_end(webhook).await;
    dispatcher.stop().await;
    // No delivery of an event that there is no more.
    let deliveries = fixture.deliveries(webhook).await;
    assert!(deliveries.iter().all(|it| !lost.contains(&it.event_id)));
}
