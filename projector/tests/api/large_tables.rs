//! Large tables, and the rows and index entries that statements on them read.

use linkledger_core::{cloud_event::PublishedEvent, shard::Shard};
use linkledger_event_store::SessionKind;
use linkledger_projector::{
    pipeline::followers::Followers,
    read_models::{Projection, description::Column, tables},
};
use linkledger_service::databases::Databases;
use linkledger_testing::{eventually, flush_statistics};
use sqlx::{AssertSqlSafe, PgPool, postgres::PgPoolOptions};

use crate::cycles::cycle_until_idle;
use crate::fixture::Fixture;

/// Number of rows of a large table.
pub(crate) const LARGE: i32 = 20_000;

/// Fills each table with the rows of the given number of links, all of them applied.
pub(crate) async fn fill(pool: &PgPool, rows: i32) {
    let numbered = format!("FROM generate_series(1, {rows}) AS n");
    for table in Projection::ALL.into_iter().flat_map(tables) {
        let columns: Vec<_> = table.columns().map(|column| column.name).collect();
        let values: Vec<_> = table.columns().map(value).collect();
        let (name, columns, values) = (table.name, columns.join(", "), values.join(", "));
        let insert = format!(
            "INSERT INTO read_model.{name} (generation, {columns}) SELECT 1, {values} {numbered}"
        );
        sqlx::raw_sql(AssertSqlSafe(insert))
            .execute(pool)
            .await
            .unwrap();
    }
    for statement in [
        format!(
            "INSERT INTO event_store.events (shard, position, stream_id, version, account_id,
                 event_id, type, schema_version, payload, metadata, recorded_at)
             SELECT shard, head + n, gen_random_uuid(), 1, gen_random_uuid(), gen_random_uuid(),
                    'LinkCreated', 1, '{{}}', '{{}}', now()
             FROM event_store.log_shards, generate_series(1, {rows} / 16) AS n"
        ),
        format!("UPDATE event_store.log_shards SET head = head + {rows} / 16"),
        "UPDATE read_model.checkpoints AS c SET position = head
         FROM event_store.log_shards AS s WHERE s.shard = c.shard"
            .to_owned(),
        format!(
            "INSERT INTO read_model.redirect_changes
             SELECT last_number + n, 'x', NULL, now()
             FROM read_model.redirect_change_counter, generate_series(1, {rows}) AS n
             WHERE singleton"
        ),
        // Few of the rows belong to the live generation, of which no event waits.
        format!(
            "INSERT INTO read_model.parked_accounts
             SELECT 'links', CASE n % 100 WHEN 0 THEN 1 ELSE 2 END, n % 16, gen_random_uuid(), n,
                    'x', 'unknown_event', 'x' {numbered}"
        ),
        format!(
            "INSERT INTO read_model.parked_events
             SELECT 'links', 2, n % 16, n, gen_random_uuid() {numbered}
             ON CONFLICT DO NOTHING"
        ),
        format!(
            "UPDATE read_model.redirect_change_counter SET last_number = last_number + {rows}
             WHERE singleton"
        ),
    ] {
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(pool)
            .await
            .unwrap();
    }
}

/// Returns the value of a column in the row `n`.
fn value(column: &Column) -> &'static str {
    match (column.name, column.sql_type) {
        ("type", _) => "'grant'",
        ("state", _) => "'active'",
        (_, "uuid") => "gen_random_uuid()",
        (_, "text") => "gen_random_uuid()::text",
        (_, "text[]") => "ARRAY[gen_random_uuid()::text]",
        (_, "bigint") => "n",
        (_, "timestamp with time zone") => "now()",
        _ => panic!("no value for {column:?}"),
    }
}

/// Pool whose session's end can be awaited. The work of a statement is counted, so its time is not
/// limited.
pub(crate) fn measured(fixture: &Fixture) -> PgPool {
    let url = fixture.database.url();
    let options = linkledger_event_store::session_options(url, SessionKind::Projector).unwrap();
    PgPoolOptions::new().max_connections(1).connect_lazy_with(
        options
            .application_name("measured")
            .options([("statement_timeout", "0")]),
    )
}

/// Returns the number of rows read without an index, and of index entries read.
pub(crate) async fn reads(pool: &PgPool) -> (i64, i64) {
    flush_statistics(pool).await;
    sqlx::query_as(
        "SELECT coalesce(sum(seq_tup_read), 0)::bigint, coalesce(sum(
             (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes AS i WHERE i.relid = t.relid)
         ), 0)::bigint
         FROM pg_stat_user_tables AS t
         WHERE (schemaname = 'read_model' AND relname NOT IN ('checkpoints', 'projections')
                AND relname NOT LIKE '\\_sqlx%') OR relname = 'events'",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}

/// Applies the log, and waits until the statistics of this work are flushed.
pub(crate) async fn apply(fixture: &Fixture, log: &[PublishedEvent]) {
    let session = measured(fixture);
    let mut followers = Followers::new(session.clone().into());
    followers.set_shards(&Shard::all().collect());
    followers.cycle(log.to_vec()).await.unwrap();
    cycle_until_idle(&mut followers).await;
    end(fixture, session).await;
}

/// Ends the session, which then flushes its statistics.
pub(crate) async fn end(fixture: &Fixture, pool: PgPool) {
    pool.close().await;
    sessions_have_ended(fixture.database.pool(), "measured").await;
}

/// Waits until no session has the name.
pub(crate) async fn sessions_have_ended(pool: &PgPool, application_name: &str) {
    eventually("the sessions have ended", async || {
        let sessions: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = $1",
        )
        .bind(application_name)
        .fetch_one(pool)
        .await
        .unwrap();
        (sessions == 0).then_some(())
    })
    .await;
}

/// Returns one session with each schema: later statements use the plans of the first ones.
pub(crate) fn sessions(fixture: &Fixture) -> Databases {
    Databases {
        log: measured(fixture),
        read: measured(fixture),
    }
}

pub(crate) async fn end_both(fixture: &Fixture, sessions: Databases) {
    sessions.log.close().await;
    end(fixture, sessions.read).await;
}
