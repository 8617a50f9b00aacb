//! Every statement of the projector uses an index, at every size of the tables, also with a plan
//! that was made while the tables were empty.

use linkledger_core::{
    cloud_event::PublishedEvent,
    event::Subject,
    event_store::{
        self, SessionKind,
        log::{self, ReadFrom},
    },
    id::{AccountId, LinkId},
    shard::Shard,
};
use linkledger_projector::{
    operations::{
        parked::retry,
        status::collect,
        why::{WhyRequest, why},
    },
    pipeline::{engine::Engine, redirect_changes::prune},
    read_models::{Projection, description::Column, tables},
};
use linkledger_testing::{eventually, flush_statistics};
use sqlx::{AssertSqlSafe, PgPool, postgres::PgPoolOptions};

use crate::{
    events::{adjusted, deleted, destination_changed, disabled, enabled, resumed, suspended},
    poisoned::{paint, restore},
    stage::Stage,
};

/// Number of rows of a large table.
pub(crate) const LARGE: i32 = 20_000;
/// Maximum number of index entries that the statements below may read: more than they have rows, and
/// fewer than a large account has links.
const ENTRIES_MAX: i64 = 5_000;
const LINKS: usize = 8;
/// Links of an account whose tables have statistics.
const LARGE_ACCOUNT_LINKS: usize = 6_000;
const BATCH_LENGTH: usize = 7;

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
pub(crate) fn measured(stage: &Stage) -> PgPool {
    let url = stage.database.url();
    let options = event_store::session_options(url, SessionKind::Projector).unwrap();
    PgPoolOptions::new().max_connections(1).connect_lazy_with(
        options
            .application_name("measured")
            .options([("statement_timeout", "0")]),
    )
}

/// Runs every statement, on existing links and on links of the same batch.
async fn project(stage: &Stage, pool: &PgPool, name: &str) {
    let heads = log::heads(stage.database.pool()).await.unwrap();
    let account_id = stage.account_with_links(name, 0).await;
    for link in stage.append_links(account_id, name, LINKS).await {
        let events = [
            destination_changed(&link, "https://elsewhere.example/"),
            disabled(&link),
            enabled(&link),
            suspended(account_id, true),
            deleted(&link),
            resumed(account_id),
            adjusted(account_id, 1, 1_000_000),
        ];
        stage.append(account_id, &events).await;
    }
    let shard = Shard::of(account_id);
    let from = ReadFrom {
        shard,
        after: heads[shard.index()],
    };
    let news = log::read_after(stage.database.pool(), &[from], 1_000).await;
    let mut news: Vec<PublishedEvent> = news
        .unwrap()
        .into_iter()
        .map(|event| PublishedEvent::new(event, 1))
        .collect();
    assert_eq!(news.len(), 1 + 9 * LINKS);
    // The account is parked in between, and released at the end.
    let unknown = news[4 * LINKS].clone();
    paint(stage.database.pool(), &unknown).await;
    "LinkPainted".clone_into(&mut news[4 * LINKS].event.event_type);
    let mut engine = Engine::new(pool.clone().into());
    engine.assign(&Shard::all().collect::<Vec<_>>());
    for batch in news.chunks(BATCH_LENGTH) {
        engine.cycle(batch.to_vec()).await.unwrap();
    }
    restore(stage.database.pool(), &unknown).await;
    let retried = retry(&pool.clone().into(), Some(account_id)).await.unwrap();
    let released = retried
        .iter()
        .filter(|it| it.released && it.applied > LINKS);
    assert_eq!(released.count(), Projection::ALL.len(), "{retried:?}");
    prune(pool).await.unwrap();
    let link_id = LinkId::from_uuid(news[1].event.stream_id);
    look_at(pool, account_id, link_id).await;
}

/// Runs the statements of the operators' commands.
async fn look_at(pool: &PgPool, account_id: AccountId, link_id: LinkId) {
    collect(&pool.clone().into()).await.unwrap();
    for subject in [Subject::Account(account_id), Subject::Link(link_id)] {
        let why = why(&pool.clone().into(), WhyRequest::newest(subject, 20))
            .await
            .unwrap();
        let differs = why.projections.iter().filter(|it| it.agrees == Some(false));
        assert_eq!(differs.count(), 0, "{why:?}");
    }
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
pub(crate) async fn apply(stage: &Stage, log: &[PublishedEvent]) {
    let session = measured(stage);
    let mut engine = Engine::new(session.clone().into());
    engine.assign(&Shard::all().collect::<Vec<_>>());
    engine.cycle(log.to_vec()).await.unwrap();
    end(stage, session).await;
}

/// Ends the session, which then flushes its statistics.
pub(crate) async fn end(stage: &Stage, pool: PgPool) {
    pool.close().await;
    sessions_have_ended(stage.database.pool(), "measured").await;
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

async fn assert_reads_by_key(stage: &Stage, before: (i64, i64), what: &str) {
    let after = reads(stage.database.pool()).await;
    assert_eq!(after.0 - before.0, 0, "{what}");
    let entries = after.1 - before.1;
    assert!((1..ENTRIES_MAX).contains(&entries), "{what}: {entries}");
}

#[tokio::test]
async fn statements_use_keys_at_every_table_size() {
    let stage = Stage::set().await;
    for (name, rows) in [("empty", 0), ("small", 320), ("large", LARGE)] {
        fill(stage.database.pool(), rows).await;
        let before = reads(stage.database.pool()).await;
        let session = measured(&stage);
        project(&stage, &session, name).await;
        end(&stage, session).await;
        assert_reads_by_key(&stage, before, name).await;
    }
}

#[tokio::test]
async fn statistics_of_one_large_account_use_keys() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("large", LARGE_ACCOUNT_LINKS).await;
    let log = stage.log().await;
    apply(&stage, &log).await;
    sqlx::query("ANALYZE")
        .execute(stage.database.pool())
        .await
        .unwrap();
    let newest = log
        .iter()
        .rev()
        .find(|it| it.event.event_type == "LinkCreated");
    let link_id = LinkId::from_uuid(newest.unwrap().event.stream_id);
    let before = reads(stage.database.pool()).await;
    let session = measured(&stage);
    look_at(&session, account_id, link_id).await;
    project(&stage, &session, "beside").await;
    end(&stage, session).await;
    assert_reads_by_key(&stage, before, "beside a large account").await;
}

#[tokio::test]
async fn plans_of_empty_tables_use_keys_later() {
    let stage = Stage::set().await;
    let session = measured(&stage);
    project(&stage, &session, "empty").await;
    fill(stage.database.pool(), LARGE).await;
    let before = reads(stage.database.pool()).await;
    project(&stage, &session, "large").await;
    end(&stage, session).await;
    assert_reads_by_key(&stage, before, "large").await;
}
