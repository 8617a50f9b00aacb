//! Salts, partitions and pruning.

use linkledger_projector::{clicks::housekeeping, operations::status::clicks};
use linkledger_service::kafka_config::ClicksConfig;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::fixture::Fixture;

async fn partitions(pool: &PgPool, table: &str) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT c.relname::text FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
         WHERE i.inhparent = to_regclass('clicks.' || $1) ORDER BY 1",
    )
    .bind(table)
    .fetch_all(pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn salts_of_two_days_exist_and_older_ones_are_deleted() {
    let fixture = Fixture::new().await;
    let pool = fixture.read.pool();
    sqlx::query(
        "INSERT INTO clicks.salts (day, salt)
         SELECT (now() AT TIME ZONE 'UTC')::date - days, decode(repeat('00', 16), 'hex')
         FROM generate_series(1, 3) AS days",
    )
    .execute(pool)
    .await
    .unwrap();
    for _ in 0..2 {
        housekeeping::create_salts(pool).await.unwrap();
        housekeeping::delete_salts(pool).await.unwrap();
        let salts: Vec<(i32, Vec<u8>)> = sqlx::query_as(
            "SELECT day - (now() AT TIME ZONE 'UTC')::date, salt FROM clicks.salts ORDER BY day",
        )
        .fetch_all(pool)
        .await
        .unwrap();
        let days: Vec<i32> = salts.iter().map(|(day, _)| *day).collect();
        assert_eq!(days, [-1, 0, 1]);
        assert!(salts[1].1 != salts[2].1 && salts[1].1 != [0; 16]);
    }
}

#[tokio::test]
async fn partitions_exist_ahead_and_expired_ones_are_dropped() {
    let fixture = Fixture::new().await;
    let pool = fixture.read.pool();
    housekeeping::create_ahead(pool).await.unwrap();
    let ahead = partitions(pool, "link_15min").await;
    assert!((6..=8).contains(&ahead.len()), "{ahead:?}");
    assert!(partitions(pool, "account_values").await.len() >= 2);
    assert_eq!(housekeeping::drop_expired(pool).await.unwrap(), None);
    for (table, expired) in [
        ("link_15min", "link_15min_20200106"),
        ("account_values", "account_values_20200101"),
        ("link_days", "link_days_20200101"),
    ] {
        let statement = format!(
            "CREATE TABLE clicks.{expired} PARTITION OF clicks.{table}
             FOR VALUES FROM ('2020-01-06') TO ('2020-01-13')"
        );
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .execute(pool)
            .await
            .unwrap();
    }
    let dropped = async || housekeeping::drop_expired(pool).await.unwrap();
    assert_eq!(dropped().await.as_deref(), Some("account_values_20200101"));
    assert_eq!(dropped().await.as_deref(), Some("link_15min_20200106"));
    // Days are kept for ever.
    assert_eq!(dropped().await, None);
    assert_eq!(partitions(pool, "link_15min").await, ahead);
}

#[tokio::test]
async fn only_counted_recorders_of_the_past_are_pruned() {
    let fixture = Fixture::new().await;
    let pool = fixture.read.pool();
    sqlx::query(
        "INSERT INTO clicks.recorders (recorder_id, started_at, seen_at, ended_at)
         SELECT gen_random_uuid(), now() - interval '9 days', now() - seen, now() - ended
         FROM (VALUES (interval '2 days', interval '2 days'), ('2 days', NULL),
                      ('1 hour', '1 hour'), ('0 s', NULL)) AS recorders (seen, ended)",
    )
    .execute(pool)
    .await
    .unwrap();
    assert_eq!(housekeeping::prune_recorders(pool).await.unwrap(), 0);
    sqlx::query("UPDATE clicks.positions SET read_to_end_at = now()")
        .execute(pool)
        .await
        .unwrap();
    assert_eq!(housekeeping::prune_recorders(pool).await.unwrap(), 2);
    assert_eq!(housekeeping::prune_recorders(pool).await.unwrap(), 0);
}

#[tokio::test]
async fn records_lost_at_end_of_recorder_stay_missing() {
    let fixture = Fixture::new().await;
    let pool = fixture.read.pool();
    let run = async |statement: &'static str| {
        sqlx::query(statement).execute(pool).await.unwrap();
    };
    let missing = async || clicks::read(pool).await.unwrap().missing;
    // The dead recorder gave away 5 sequences of partition 2 and 4 of partition 3.
    run("INSERT INTO clicks.recorders (recorder_id, started_at, seen_at)
         VALUES ('00000000-0000-0000-0000-000000000001', now() - interval '9 days', now() - interval '2 days'),
                (gen_random_uuid(), now(), now())")
    .await;
    run("INSERT INTO clicks.heartbeats (recorder_id, recorded_until, sequences)
         SELECT '00000000-0000-0000-0000-000000000001', now() - interval '2 days' - earlier * interval '1 s',
                array_fill(0, ARRAY[2]) || ARRAY[5 - earlier, 4 - earlier] || array_fill(0, ARRAY[12])
         FROM unnest(ARRAY[0, 1]) AS earlier")
    .await;
    run(
        "INSERT INTO clicks.sequences (partition, recorder_id, sequence, missing, counted_at)
         VALUES (2, '00000000-0000-0000-0000-000000000001', 3, 1, now())",
    )
    .await;
    // Records may still be in the topic.
    assert_eq!(missing().await, 1);
    run("UPDATE clicks.positions SET read_to_end_at = now()").await;
    assert_eq!(missing().await, 7);
    assert_eq!(housekeeping::prune_recorders(pool).await.unwrap(), 0);
    assert_eq!(missing().await, 7);
    // The records are published again, from an archive.
    run("UPDATE clicks.sequences SET sequence = 5").await;
    run(
        "INSERT INTO clicks.sequences (partition, recorder_id, sequence, counted_at)
         VALUES (3, '00000000-0000-0000-0000-000000000001', 4, now())",
    )
    .await;
    assert_eq!(missing().await, 1);
    assert_eq!(housekeeping::prune_recorders(pool).await.unwrap(), 1);
    assert_eq!(missing().await, 1);
}

#[tokio::test]
async fn sequences_of_gone_recorders_are_pruned() {
    let fixture = Fixture::new().await;
    let pool = fixture.read.pool();
    sqlx::query(
        "INSERT INTO clicks.sequences (partition, recorder_id, sequence, counted_at)
         SELECT 1, gen_random_uuid(), 1, now() - days * interval '1 day'
         FROM unnest(ARRAY[1, 799, 801]) AS days",
    )
    .execute(pool)
    .await
    .unwrap();
    assert_eq!(housekeeping::prune_sequences(pool).await.unwrap(), 1);
}

#[tokio::test]
async fn failed_step_fails_the_task_after_the_other_steps() {
    let fixture = Fixture::new().await;
    let pool = fixture.read.pool();
    sqlx::raw_sql(
        "ALTER TABLE clicks.salts RENAME TO lost_salts;
         INSERT INTO clicks.sequences (partition, recorder_id, sequence, counted_at)
         VALUES (1, gen_random_uuid(), 1, now() - interval '801 days')",
    )
    .execute(pool)
    .await
    .unwrap();
    let shutdown = CancellationToken::new();
    let kept = housekeeping::keep(pool.clone(), ClicksConfig::default(), shutdown).await;
    let error = kept.unwrap_err().to_string();
    assert_eq!(error, "the housekeeping of clicks has failed");
    let sequences: i64 = sqlx::query_scalar("SELECT count(*) FROM clicks.sequences")
        .fetch_one(pool)
        .await
        .unwrap();
    assert_eq!(sequences, 0);
}
