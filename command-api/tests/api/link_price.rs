//! The price of a link in the event store, which query-api shows.

use linkledger_testing::TestDatabase;

use crate::support::TestApp;

const FILL: &str =
    include_str!("../../../migrations/event_store/20261124201100_fill_log_meta_link_price.sql");

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

#[tokio::test]
async fn migration_stores_the_price_of_the_newest_charge() {
    let app = TestApp::start().await;
    set(&app.database, 9).await;
    let fill = || sqlx::raw_sql(FILL).execute(app.database.pool());
    fill().await.unwrap();
    assert_eq!(stored(&app.database).await, 9);

    let (_, key) = app.account(10).await;
    app.link(&key).await;
    fill().await.unwrap();
    assert_eq!(stored(&app.database).await, 1);
}
