//! Verification reads by key, also with plans that were made while the tables were empty.

use linkledger_core::{
    clock::{Clock as _, SystemClock, new_uuid},
    shard::Shard,
};
use linkledger_projector::{
    operations::verify::{
        self,
        statements::{compare, expected},
    },
    read_models::{Projection, description::IN_BUCKET, tables},
};
use linkledger_service::databases::Databases;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use crate::{
    events::{resumed, suspended},
    fixture::Fixture,
    large_tables::{LARGE, apply, end, end_both, fill, measured, reads, sessions},
    verified::first_generation,
};

const PROJECTIONS: u64 = Projection::ALL.len() as u64;
/// Maximum number of index entries read for each event and its rows: some look-ups for each
/// projection.
const ENTRIES_PER_EVENT_MAX: u64 = 16 + 18 * PROJECTIONS;

async fn verify_all(sessions: &Databases) -> u64 {
    let mut events = 0;
    for target in Projection::ALL.map(first_generation) {
        let verified = verify::verify_generation(sessions, target, &|_| ())
            .await
            .unwrap();
        events += verified.events;
    }
    events
}

#[tokio::test]
async fn plans_of_empty_tables_use_keys_later() {
    let fixture = Fixture::new().await;
    let session = sessions(&fixture);
    assert_eq!(verify_all(&session).await, 0);
    fill(fixture.database.pool(), LARGE).await;
    let before = reads(fixture.database.pool()).await;
    assert_eq!(
        verify_all(&session).await,
        PROJECTIONS * u64::from(LARGE.unsigned_abs())
    );
    end_both(&fixture, session).await;
    let after = reads(fixture.database.pool()).await;
    assert_eq!(after.0 - before.0, 0, "rows read without an index");
    let entries = after.1 - before.1;
    let events = i64::from(LARGE);
    assert!(
        (events..ENTRIES_PER_EVENT_MAX.cast_signed() * events).contains(&entries),
        "{entries} entries"
    );
}

/// Keys of one comparison.
const COMPARED: usize = 2_000;

/// Runs one statement, written out, in the session.
async fn run(session: &PgPool, statement: String) {
    let statement = sqlx::raw_sql(AssertSqlSafe(statement));
    statement.execute(session).await.unwrap();
}

#[tokio::test]
async fn comparisons_planned_on_empty_tables_look_up_keys() {
    let fixture = Fixture::new().await;
    let session = measured(&fixture);
    let tables: Vec<_> = Projection::ALL.into_iter().flat_map(tables).collect();
    run(&session, "SET plan_cache_mode = force_generic_plan".into()).await;
    let uuids = format!("array_fill(gen_random_uuid(), ARRAY[{COMPARED}])");
    let others =
        ["'{}'::text", "1::bigint"].map(|it| format!("array_fill({it}, ARRAY[{COMPARED}])"));
    let compared = |name: &str| format!("{name} (1, {uuids}, {uuids}, {})", others.join(", "));
    for table in &tables {
        let name = table.name;
        run(&session, format!("PREPARE {name} AS {}", compare(table))).await;
        run(&session, format!("EXECUTE {}", compared(name))).await;
    }
    fill(fixture.database.pool(), LARGE).await;
    for table in &tables {
        let explain = format!(
            "EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE {}",
            compared(table.name)
        );
        let plan: Value = sqlx::query_scalar(AssertSqlSafe(explain))
            .persistent(false)
            .fetch_one(&session)
            .await
            .unwrap();
        let dropped = rows_dropped_by_joins(&plan[0]["Plan"]);
        assert!(dropped < 10_000.0, "{dropped} rows for `{}`", table.name);
    }
    end(&fixture, session).await;
}

/// More than a page of entries.
const LINKS: usize = 6_000;
const STATUS_CHANGES: usize = 100;

#[tokio::test]
async fn statistics_of_one_large_account_keep_reads_linear() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("large", 0).await;
    // Each of them looks for the next one, far ahead for the last of these.
    for _ in 0..STATUS_CHANGES {
        let status_events = [suspended(account_id, true), resumed(account_id)];
        fixture.append(account_id, &status_events).await;
    }
    fixture.append_links(account_id, "large", LINKS).await;
    fixture
        .append(account_id, &[suspended(account_id, true)])
        .await;
    let log = fixture.log().await;
    apply(&fixture, &log).await;
    sqlx::query("ANALYZE")
        .execute(fixture.database.pool())
        .await
        .unwrap();
    let before = reads(fixture.database.pool()).await;
    let session = sessions(&fixture);
    let events = log.len() as u64;
    assert_eq!(verify_all(&session).await, PROJECTIONS * events);
    end_both(&fixture, session).await;
    let after = reads(fixture.database.pool()).await;
    assert_eq!(after.0 - before.0, 0, "rows read without an index");
    let entries = (after.1 - before.1).unsigned_abs();
    assert!(
        entries < ENTRIES_PER_EVENT_MAX * events,
        "{entries} entries"
    );
}

/// Parked accounts of one shard.
const PARKED: usize = 2_000;

/// Returns the number of rows that the joins of a plan have read and dropped.
fn rows_dropped_by_joins(plan: &Value) -> f64 {
    let figure = |name: &str| plan[name].as_f64().unwrap_or(0.0);
    let per_loop = figure("Rows Removed by Join Filter") + figure("Rows Removed by Filter");
    let parts = plan["Plans"].as_array().into_iter().flatten();
    per_loop * figure("Actual Loops") + parts.map(rows_dropped_by_joins).sum::<f64>()
}

#[tokio::test]
async fn parked_accounts_are_found_by_key_for_each_event() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("large", 1_000).await;
    let session = sessions(&fixture);
    for table in Projection::ALL.into_iter().flat_map(tables) {
        let explain = format!(
            "EXPLAIN (ANALYZE, FORMAT JSON) {}",
            expected(table, IN_BUCKET)
        );
        let accounts: Vec<Uuid> = (0..PARKED).map(|_| new_uuid(SystemClock.now())).collect();
        let plan: Value = sqlx::query_scalar(AssertSqlSafe(explain))
            .bind(Vec::<i16>::new())
            .bind(Vec::<i64>::new())
            .bind(Vec::<Uuid>::new())
            .bind(accounts)
            .bind(vec![1_i64; PARKED])
            .bind(Shard::of(account_id).number())
            .bind(i64::MAX)
            .bind(1_i64)
            .bind(5_000_i64)
            .fetch_one(&session.log)
            .await
            .unwrap();
        let dropped = rows_dropped_by_joins(&plan[0]["Plan"]);
        assert!(dropped < 10_000.0, "{dropped} rows for `{}`", table.name);
    }
    end_both(&fixture, session).await;
}
