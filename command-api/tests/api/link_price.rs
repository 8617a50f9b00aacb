//! The price of a link in the event store, which query-api shows.

use linkledger_testing::TestDatabase;

use crate::support::TestApp;

async fn stored(database: &TestDatabase) -> i64 {
    sqlx::query_scalar("SELECT link_price FROM event_store.log_meta")
        .fetch_one(database.pool())
        .await
        .unwrap()
}

async fn set(database: &TestDatabase, link_price: i64) {
    sqlx::query("UPDATE event_store.log_meta SET link_price = $1")
        .bind(link_price)
        .execute(database.pool())
        .await
        .unwrap();
}

#[tokio::test]
async fn start_stores_the_price() {
    let database = TestDatabase::create().await;
    set(&database, 9).await;
    let url = database.url().to_owned();
    let app = TestApp::start_on(database, &url, 0).await;
    assert_eq!(stored(&app.database).await, 1);
}
