//! Reads of the log by COPY that do not end: the session must not answer a later statement with what is left.

use linkledger_core::shard::Shard;
use linkledger_event_store::{
    SessionKind,
    log::stored::{self, PositionRange},
};
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use sqlx::{AssertSqlSafe, PgPool};

const RENAME: &str = "ALTER TABLE event_store.events RENAME TO sound_events;";

/// A log of some events, and a pool of one session.
async fn set() -> (TestDatabase, PgPool, PositionRange) {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 5).await;
    let links = [("spring", "https://example.com/")];
    testing::append_links(database.pool(), account_id, &links).await;
    let stretch = PositionRange {
        shard: Shard::of(account_id),
        after: 0,
        up_to: 1_000,
    };
    let pool = linkledger_event_store::pool(database.url(), SessionKind::Reader, 1).unwrap();
    (database, pool, stretch)
}

async fn run(database: &TestDatabase, sql: &str) {
    let statement = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
    statement.execute(database.pool()).await.unwrap();
}

async fn assert_answers_belong_to_statements(pool: &PgPool) {
    for number in 1..=5_i64 {
        let asked = sqlx::query_scalar::<_, i64>("SELECT $1::bigint").bind(number);
        assert_eq!(asked.fetch_one(pool).await.unwrap(), number);
    }
}

#[tokio::test]
async fn failed_copy_leaves_no_answer_to_next_statement() {
    let (database, pool, stretch) = set().await;
    run(&database, RENAME).await;
    let failed = stored::read_stored(&pool, stretch).await;
    let message = failed.unwrap_err().to_string();
    assert!(message.contains("does not exist"), "{message}");
    assert_answers_belong_to_statements(&pool).await;
}

/// Waits until a session of the database runs a COPY.
async fn copy_runs(database: &TestDatabase) {
    testing::eventually("the COPY runs", async || {
        let copies = "SELECT count(*) FROM pg_stat_activity
                      WHERE state = 'active' AND query LIKE 'COPY %'
                        AND datname = current_database()";
        let copies = sqlx::query_scalar::<_, i64>(copies).fetch_one(database.pool());
        (copies.await.unwrap() > 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn dropped_copy_leaves_no_answer_to_next_statement() {
    let (database, pool, stretch) = set().await;
    let slow = "CREATE VIEW event_store.events AS SELECT * FROM event_store.sound_events
                WHERE pg_sleep(60) IS NOT NULL";
    run(&database, &format!("{RENAME}{slow}")).await;
    let mut attempts = 0..10;
    let is_dropped = loop {
        if attempts.next().is_none() {
            break false;
        }
        tokio::select! {
            // Postgres ends the statement after some seconds.
            _ = stored::read_stored(&pool, stretch) => {}
            () = copy_runs(&database) => break true,
        }
    };
    assert!(is_dropped, "no COPY runs");
    assert_answers_belong_to_statements(&pool).await;
}
