//! Statements of the aggregation read statistics by key only, although the plans were made on empty tables.

use linkledger_clicks::dimension_counts::DimensionCounts;
use linkledger_core::clock::{Clock as _, SystemClock};
use linkledger_testing::{eventually, flush_statistics};
use sqlx::PgPool;
use time::Duration;

use super::click_fixture::{ClickFixture, TestRecorder, click};

/// Rows of each table.
const ROWS: i64 = 60_000;

/// Links with clicks.
const LINKS: i64 = 300;

/// Maximum number of index entries that the second clicks need; far fewer than rows.
const ENTRIES_MAX: i64 = 20_000;

/// Creates the partitions of [`fill`] ahead: a new one would let the sessions plan their statements again.
async fn create_partitions(pool: &PgPool) {
    let partitions =
        "SELECT clicks.create_partitions(current_date - n) FROM generate_series(0, 60) AS n";
    sqlx::query(partitions).execute(pool).await.unwrap();
}

/// Inserts [`ROWS`] rows into each table of statistics: of links and accounts without clicks, over 60 days.
async fn fill(pool: &PgPool) {
    for rows in [
        "link_15min SELECT id, id, day, 1, 1",
        "link_days SELECT id, id, (day AT TIME ZONE 'UTC')::date, 1, 1, NULL",
        "link_values SELECT id, id, (day AT TIME ZONE 'UTC')::date, $2, $2, $2, $2, $2",
        "account_15min SELECT id, day, 0, 1, 1",
        "account_days SELECT id, (day AT TIME ZONE 'UTC')::date, 0, 1, 1, NULL",
        "account_values SELECT id, (day AT TIME ZONE 'UTC')::date, 0, $2, $2, $2, $2, $2",
    ] {
        let statement = format!(
            "INSERT INTO clicks.{rows}
             FROM (SELECT lpad(n::text, 32, 'f')::uuid AS id,
                          date_trunc('day', now(), 'UTC') - n % 60 * interval '1 day' AS day
                   FROM generate_series(0, $1 - 1) AS n) AS row
             WHERE $2::bytea IS NOT NULL"
        );
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(ROWS)
            .bind(DimensionCounts::default().to_bytes())
            .execute(pool)
            .await
            .unwrap();
    }
}

/// Inserts [`ROWS`] webhooks of other accounts that want clicks by minute.
async fn fill_webhooks(pool: &PgPool) {
    let statement = format!(
        "BEGIN;
         -- The accounts do not exist.
         SET LOCAL session_replication_role = replica;
         INSERT INTO event_store.webhooks
             (webhook_id, account_id, url, types, enabled, in_order, all_accounts, secret_key_id,
              secret_generation, created_at, updated_at)
         SELECT gen_random_uuid(), gen_random_uuid(), '', '{{link.clicks}}', true, false, false, '',
                1, now(), now()
         FROM generate_series(1, {ROWS});
         COMMIT"
    );
    let statement = sqlx::raw_sql(sqlx::AssertSqlSafe(statement));
    statement.execute(pool).await.unwrap();
}

/// Publishes a click of each of [`LINKS`] links, today and 40 days ago.
async fn publish(fixture: &ClickFixture, recorder: &mut TestRecorder) {
    let now = SystemClock.now();
    let made: Vec<_> = (0..LINKS.unsigned_abs())
        .flat_map(|link| [now, now - Duration::days(40)].map(|at| click(link.into(), at)))
        .collect();
    fixture.publish(recorder, &made).await;
}

/// Waits until this many records are counted.
async fn counted(pool: &PgPool, records: i64) {
    eventually("the records are counted", async || {
        let counted: i64 =
            sqlx::query_scalar("SELECT sum(next_offset)::bigint FROM clicks.positions")
                .fetch_one(pool)
                .await
                .unwrap();
        (counted == records).then_some(())
    })
    .await;
}

/// Waits until the sessions of the aggregation have ended: a session stores its statistics at its end.
async fn aggregation_ended(pool: &PgPool) {
    flush_statistics(pool).await;
    eventually("the sessions of the aggregation have ended", async || {
        let sessions: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'linkledger'",
        )
        .fetch_one(pool)
        .await
        .unwrap();
        (sessions == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn statistics_are_written_by_key_only() {
    let fixture = ClickFixture::embedded().await;
    let pool = fixture.pool();
    let mut recorder = TestRecorder::new();
    create_partitions(pool).await;
    let aggregation = fixture.aggregation();
    // Plans are made while the tables are empty.
    publish(&fixture, &mut recorder).await;
    counted(pool, 2 * LINKS).await;
    fill(pool).await;
    fill_webhooks(pool).await;
    publish(&fixture, &mut recorder).await;
    counted(pool, 4 * LINKS).await;
    aggregation.stop().await;
    aggregation_ended(pool).await;
    let (scanned, entries): (i64, i64) = sqlx::query_as(
        "SELECT (SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables
                 WHERE schemaname = 'clicks' AND relname ~ '_(15min|days|values)_'
                    OR schemaname = 'event_store' AND relname = 'webhooks'),
                (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes
                 WHERE schemaname = 'clicks' AND relname ~ '_(15min|days|values)_'
                    OR schemaname = 'event_store' AND relname = 'webhooks')",
    )
    .fetch_one(pool)
    .await
    .unwrap();
    // Scans of the nearly empty tables, before they were filled, read few rows.
    assert!(scanned < ROWS / 10, "{scanned}");
    assert!((1..ENTRIES_MAX).contains(&entries), "{entries}");
}
