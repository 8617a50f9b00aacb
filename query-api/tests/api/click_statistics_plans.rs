//! Statements on statistics of clicks read rows by key only, although the plans were made on empty tables.

use linkledger_clicks::{Dimension, dimension_counts::DimensionCounts};
use linkledger_testing as testing;
use sqlx::PgPool;

use crate::{click_statistics::ClickFixture, service::TestService};

/// Days, links and values of each day with rows.
const DAYS: i64 = 60;
const LINKS: i64 = 200;

/// Maximum number of index entries that all reads together need; far fewer than rows.
const ENTRIES_MAX: i64 = 40_000;

/// Reads of a range of three days.
fn paths(link_id: &str) -> Vec<String> {
    let range = "from=2026-10-20&to=2026-10-23";
    let mut paths = Vec::new();
    for of in [
        format!("/v1/links/{link_id}/clicks"),
        "/v1/clicks".to_owned(),
    ] {
        paths.push(format!("{of}?{range}"));
        paths.push(format!("{of}?{range}&timezone=Europe/Berlin"));
        paths.push(format!("{of}?{range}&interval=hour"));
        for dimension in Dimension::ALL.map(Dimension::name) {
            paths.push(format!("{of}/top?{range}&by={dimension}"));
        }
    }
    paths.push(format!("/v1/clicks/top-links?{range}"));
    paths
}

async fn read_all(fixture: &ClickFixture) {
    for path in paths(&fixture.link.link.link_id.to_string()) {
        let answer = fixture.service.get(&fixture.caller, &path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }
}

/// Inserts rows of [`DAYS`] days: of the link and of others of the account, and of other accounts. Returns
/// the number of rows.
async fn fill(fixture: &ClickFixture) -> i64 {
    let mut rows = 0;
    for insert in [
        "INSERT INTO clicks.link_days SELECT account_id, link_id, day, 1, 1 FROM numbered",
        "INSERT INTO clicks.link_15min
         SELECT account_id, link_id, day + nth * interval '15 min', 1, 1
         FROM numbered, generate_series(0, 95, 8) AS nth",
        "INSERT INTO clicks.link_values SELECT account_id, link_id, day, $5, $5, $5, $5, $5 FROM numbered",
        "INSERT INTO clicks.account_days
         SELECT account_id, day, partition, 1, 1 FROM accounts, generate_series(0, 15) AS partition",
        "INSERT INTO clicks.account_15min
         SELECT account_id, day + nth * interval '15 min', partition, 1, 1
         FROM accounts, generate_series(0, 95, 8) AS nth, generate_series(0, 15, 5) AS partition",
        "INSERT INTO clicks.account_values SELECT account_id, day, partition, $5, $5, $5, $5, $5
         FROM accounts, generate_series(0, 15) AS partition",
    ] {
        let statement = format!(
            "WITH days AS (
                 SELECT d::date AS day
                 FROM generate_series('2026-09-22'::date, '2026-09-22'::date + $3::int - 1,
                                      interval '1 day') AS d
             ), accounts AS (
                 SELECT account_id, day FROM days, unnest(ARRAY[$1, $2::uuid]) AS account_id
             ), numbered AS (
                 SELECT CASE WHEN n % 10 = 0 THEN $1 ELSE $2 END AS account_id,
                        CASE n WHEN 0 THEN $2 ELSE lpad(n::text, 32, '0')::uuid END AS link_id, n, day
                 FROM days, generate_series(0, $4::int - 1) AS n
                 WHERE $5::bytea IS NOT NULL
             )
             {insert}"
        );
        let inserted = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(fixture.caller.account_id.uuid())
            .bind(fixture.link.link.link_id.uuid())
            .bind(DAYS)
            .bind(LINKS)
            .bind(DimensionCounts::default().to_bytes())
            .execute(fixture.service.pool())
            .await
            .unwrap();
        rows += i64::try_from(inserted.rows_affected()).unwrap();
    }
    rows
}

/// Returns how many rows sequential scans read, and how many entries index scans read, in the tables of
/// clicks.
async fn scanned_and_entries(pool: &PgPool) -> (i64, i64) {
    sqlx::query_as(
        "SELECT (SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables
                 WHERE schemaname = 'clicks' AND relname ~ '_(15min|days|values)_'),
                (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes
                 WHERE schemaname = 'clicks' AND relname ~ '_(15min|days|values)_')",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}

/// Waits until the sessions that read statistics have ended, so that their statistics are stored.
async fn stopped(service: TestService) -> PgPool {
    let database = service.shut_down().await.unwrap();
    let pool = database.pool().clone();
    testing::eventually("the sessions of the service end", async || {
        let sessions: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'linkledger'",
        )
        .fetch_one(&pool)
        .await
        .unwrap();
        (sessions == 0).then_some(())
    })
    .await;
    pool
}

#[tokio::test]
async fn statistics_are_read_by_key_only() {
    let fixture = ClickFixture::new().await;
    // Plans are made while the tables are empty.
    read_all(&fixture).await;
    let rows = fill(&fixture).await;
    assert!(rows > 3 * ENTRIES_MAX, "{rows}");
    read_all(&fixture).await;
    let pool = stopped(fixture.service).await;
    let (scanned, entries) = scanned_and_entries(&pool).await;
    // Scans of empty tables read nothing.
    assert_eq!(scanned, 0);
    assert!((1..ENTRIES_MAX).contains(&entries), "{entries}");
}
