//! An event that cannot be read, as after damage of a page of the disk.

use sqlx::{AssertSqlSafe, PgPool};

use linkledger_core::shard::Shard;

/// Replaces the log by a view in which one event cannot be read (SQLSTATE XX001), but for its place. Nothing can be
/// appended until [`mend_log`].
pub async fn damage_event(pool: &PgPool, shard: Shard, position: i64) {
    let readable = |column: &str, to: &str| {
        format!(
            "CASE WHEN shard = {shard} AND position = {position} THEN damaged({column}::text)::{to}
                  ELSE {column} END AS {column}"
        )
    };
    let sql = format!(
        "CREATE OR REPLACE FUNCTION damaged(text) RETURNS text LANGUAGE plpgsql STABLE AS
             $$ BEGIN RAISE EXCEPTION 'invalid page' USING ERRCODE = 'XX001'; END $$;
         ALTER TABLE event_store.events RENAME TO sound_events;
         CREATE VIEW event_store.events AS SELECT shard, position, stream_id, version, account_id,
             {}, type, schema_version, {}, metadata, {}, idempotency_key
         FROM event_store.sound_events",
        readable("event_id", "uuid"),
        readable("payload", "json"),
        readable("recorded_at", "timestamptz"),
    );
    run(pool, sql).await;
}

/// Replaces the log by a view that lacks one event, as a page of zeros does. Nothing can be appended until
/// [`mend_log`].
pub async fn hide_event(pool: &PgPool, shard: Shard, position: i64) {
    let sql = format!(
        "ALTER TABLE event_store.events RENAME TO sound_events;
         CREATE VIEW event_store.events AS SELECT * FROM event_store.sound_events
         WHERE (shard, position) <> ({shard}, {position})"
    );
    run(pool, sql).await;
}

/// Ends the damage of [`damage_event`] or [`hide_event`].
pub async fn mend_log(pool: &PgPool) {
    let sql = "DROP VIEW event_store.events;
               ALTER TABLE event_store.sound_events RENAME TO events";
    run(pool, sql.to_owned()).await;
}

async fn run(pool: &PgPool, sql: String) {
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(pool)
        .await
        .expect("the log is replaced");
}
