//! Sealing: each full segment of the log is sealed once, by one instance, unless the log is damaged.

use linkledger_command_api::sealing::Sealer;
use linkledger_core::{id::AccountId, segment::Segment, shard::Shard};
use linkledger_event_store::{
    segments::{self, SealError, SealState},
    transaction::PoolTransaction,
};
use linkledger_testing as testing;
use linkledger_testing::TestDatabase;
use metrics_exporter_prometheus::PrometheusBuilder;
use sqlx::AssertSqlSafe;

const EVENTS_PER_SEGMENT: i64 = 4;

/// Returns the audit statement of `docs/sealed-segments.md`.
fn audit() -> &'static str {
    let document = include_str!("../../../docs/sealed-segments.md");
    let (_, statement) = document.split_once("```sql\n").unwrap();
    statement.split_once("```").unwrap().0
}

fn sealer(database: &TestDatabase) -> Sealer {
    Sealer::new(database.pool().clone()).with_events_per_segment(EVENTS_PER_SEGMENT)
}

/// Creates a log with `links` links of one account, two events each.
async fn log_of(links: usize) -> (TestDatabase, AccountId) {
    let database = TestDatabase::create().await;
    let account_id = testing::account(database.pool(), 1_000).await;
    append_links(&database, account_id, links).await;
    (database, account_id)
}

async fn append_links(database: &TestDatabase, account_id: AccountId, links: usize) {
    for _ in 0..links {
        let slug = linkledger_core::link::Slug::generate().to_string();
        let link = [(slug.as_str(), "https://example.com/ü?q=1")];
        testing::append_links(database.pool(), account_id, &link).await;
    }
}

async fn seal_all(database: &TestDatabase) -> usize {
    let mut sealer = sealer(database);
    let mut count = 0;
    loop {
        match sealer.round().await {
            0 => return count,
            more => count += more,
        }
    }
}

async fn execute(database: &TestDatabase, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
        .execute(database.pool())
        .await
        .unwrap();
}

async fn state(database: &TestDatabase, account_id: AccountId) -> SealState {
    let shards = segments::seal_states(database.pool()).await.unwrap();
    shards[Shard::of(account_id).index()]
}

async fn seal_next(
    database: &TestDatabase,
    state: SealState,
    shard: Shard,
) -> Result<Segment, SealError> {
    let place = Segment::next(state.last.as_ref(), shard, state.epoch, EVENTS_PER_SEGMENT);
    let mut session = database.pool().acquire().await.unwrap();
    segments::seal(&mut session, place, state.last.as_ref()).await
}

#[tokio::test]
async fn full_segments_are_sealed_once() {
    let (database, account_id) = log_of(5).await;
    assert_eq!(seal_all(&database).await, 2);
    assert_eq!(seal_all(&database).await, 0);
    let before = state(&database, account_id).await;
    assert_eq!(
        (before.head, before.last.unwrap().place.last_position),
        (10, 8)
    );

    append_links(&database, account_id, 1).await;
    assert_eq!(seal_all(&database).await, 1);
    let after = state(&database, account_id).await;
    assert_eq!(after.last.unwrap().place.number, 3);
}

#[tokio::test]
async fn segment_hash_equals_hash_by_audit_statement() {
    let (database, _) = log_of(4).await;
    let other = testing::account(database.pool(), 1_000).await;
    append_links(&database, other, 4).await;
    assert_eq!(seal_all(&database).await, 4);
    let audited: Vec<(i16, i64, bool)> = sqlx::query_as(audit())
        .fetch_all(database.pool())
        .await
        .unwrap();
    assert_eq!(audited.len(), 4);
    assert!(
        audited.iter().all(|(.., is_sound)| *is_sound),
        "{audited:?}"
    );

    execute(
        &database,
        "ALTER TABLE event_store.events DISABLE TRIGGER USER;
         UPDATE event_store.events SET recorded_at = recorded_at + interval '1 microsecond'
         WHERE position = 5",
    )
    .await;
    let audited: Vec<(i16, i64, bool)> = sqlx::query_as(audit())
        .fetch_all(database.pool())
        .await
        .unwrap();
    let unsound = audited.iter().filter(|(_, number, is_sound)| {
        assert!(*is_sound || *number == 2);
        !is_sound
    });
    // One changed event in each shard; both accounts may be in the same shard.
    assert!((1..=2).contains(&unsound.count()));
}

#[tokio::test]
async fn sealing_a_segment_again_changes_nothing() {
    let (database, account_id) = log_of(2).await;
    let (unsealed, shard) = (state(&database, account_id).await, Shard::of(account_id));
    let first = seal_next(&database, unsealed, shard).await.unwrap();
    let again = seal_next(&database, unsealed, shard).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(state(&database, account_id).await.last, Some(first));
}

/// Blocks the insert of the first sealer, so that the first sealer holds the advisory lock until
/// Postgres ends its session.
#[tokio::test]
async fn second_sealer_waits_until_the_first_ends() {
    let (database, account_id) = log_of(4).await;
    let mut blocking = PoolTransaction::begin(database.pool()).await.unwrap();
    sqlx::raw_sql("LOCK TABLE event_store.log_segments IN SHARE MODE")
        .execute(&mut *blocking)
        .await
        .unwrap();
    let (mut first, mut second) = (sealer(&database), sealer(&database));
    let meanwhile = async {
        let first_session = testing::eventually("the first sealer is blocked", async || {
            let blocked: sqlx::Result<i32> = sqlx::query_scalar(
                "SELECT pid FROM pg_locks
                 WHERE NOT granted AND relation = 'event_store.log_segments'::regclass
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            )
            .fetch_one(database.pool())
            .await;
            blocked.ok()
        })
        .await;
        assert_eq!(second.round().await, 0);
        assert!(state(&database, account_id).await.last.is_none());
        sqlx::query("SELECT pg_terminate_backend($1, 10000)")
            .bind(first_session)
            .execute(&mut *blocking)
            .await
            .unwrap();
        blocking.rollback().await.unwrap();
    };
    let (sealed_by_first, ()) = tokio::join!(first.round(), meanwhile);
    assert_eq!(sealed_by_first, 0);
    assert_eq!((second.round().await, second.round().await), (1, 1));
}

#[tokio::test]
async fn segment_sealed_with_other_events_is_refused() {
    let (database, account_id) = log_of(2).await;
    let (unsealed, shard) = (state(&database, account_id).await, Shard::of(account_id));
    seal_next(&database, unsealed, shard).await.unwrap();
    execute(
        &database,
        "ALTER TABLE event_store.events DISABLE TRIGGER USER;
         UPDATE event_store.events SET metadata = '{ }' WHERE position = 4",
    )
    .await;
    let error = seal_next(&database, unsealed, shard).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "segment 1 of shard {shard} can't be sealed: another process has sealed other events \
             under this number; run `command-api log verify`"
        )
    );
}

#[tokio::test]
async fn gap_stops_only_the_affected_shard() {
    let (database, account_id) = log_of(4).await;
    let shard = Shard::of(account_id);
    let other = loop {
        let other = testing::account(database.pool(), 1_000).await;
        if Shard::of(other) != shard {
            break other;
        }
    };
    append_links(&database, other, 4).await;
    execute(
        &database,
        &format!(
            "ALTER TABLE event_store.events DISABLE TRIGGER USER;
             DELETE FROM event_store.events WHERE shard = {shard} AND position = 7"
        ),
    )
    .await;
    assert_eq!(seal_all(&database).await, 3);
    let state = state(&database, account_id).await;
    assert_eq!(state.last.unwrap().place.number, 1);
    let error = seal_next(&database, state, shard).await.unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("there is no event at position 7"),
        "{message}"
    );
}

#[tokio::test]
async fn metrics_show_sealed_position_and_failures() {
    let metrics = PrometheusBuilder::new().build_recorder();
    let _recording = metrics::set_default_local_recorder(&metrics);
    let shown = |name: &str| {
        let rendered = metrics.handle().render();
        let mut values = rendered.lines().filter_map(|line| line.strip_prefix(name));
        values.next().map(|value| value.trim().to_owned())
    };
    let (database, account_id) = log_of(3).await;
    let position = format!(
        "linkledger_log_sealed_position{{shard=\"{}\"}}",
        Shard::of(account_id)
    );
    assert_eq!(seal_all(&database).await, 1);
    assert_eq!(shown(&position).as_deref(), Some("4"));
    let unsound = "linkledger_log_sealing_failures_total{reason=\"unsound\"}";
    let unreachable = "linkledger_log_sealing_failures_total{reason=\"unreachable\"}";
    assert_eq!((shown(unsound), shown(unreachable)), (None, None));
    // The state after a restore of every table but the segments.
    execute(
        &database,
        "UPDATE event_store.log_shards SET head = 3 WHERE head > 0",
    )
    .await;
    assert_eq!(seal_all(&database).await, 0);
    assert_eq!(shown(unsound).as_deref(), Some("1"));
    assert_eq!(shown(unreachable), None);
    database.pool().close().await;
    assert_eq!(sealer(&database).round().await, 0);
    assert_eq!(shown(unsound).as_deref(), Some("1"));
    assert_eq!(shown(unreachable).as_deref(), Some("1"));
}

#[tokio::test]
async fn sealer_with_former_epoch_seals_nothing() {
    let (database, account_id) = log_of(4).await;
    let (unsealed, shard) = (state(&database, account_id).await, Shard::of(account_id));
    execute(&database, "UPDATE event_store.log_meta SET epoch = 2").await;
    let error = seal_next(&database, unsealed, shard).await.unwrap_err();
    assert!(matches!(error, SealError::Epoch { .. }), "{error}");
    let message = error.to_string();
    assert!(
        message.ends_with("the log is not in epoch 1 any more"),
        "{message}"
    );
    assert_eq!(seal_all(&database).await, 2);
    let last = state(&database, account_id).await.last.unwrap();
    assert_eq!(last.place.epoch, 2);
    // The same place, after another instance has sealed segments in the new epoch.
    let error = seal_next(&database, unsealed, shard).await.unwrap_err();
    assert!(matches!(error, SealError::Epoch { .. }), "{error}");
}
