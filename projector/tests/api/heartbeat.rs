//! What projectors report of themselves.

use linkledger_core::{
    clock::{Clock as _, SystemClock},
    shard::Shard,
};
use linkledger_projector::{
    pipeline::heartbeat::{Heartbeat, Tenancy},
    read_models::{PerProjection, Projection},
};
use linkledger_testing::eventually;
use sqlx::PgPool;
use time::{Duration, OffsetDateTime};

use crate::stage::Stage;

#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
struct Reported {
    projection: String,
    owner: String,
    version: String,
    since: OffsetDateTime,
    seen_at: OffsetDateTime,
    events_per_second: f64,
    last_error: Option<String>,
}

/// What is reported of a shard, by projection.
async fn reported(pool: &PgPool, shard: Shard) -> Vec<Reported> {
    sqlx::query_as(
        "SELECT projection, owner, version, since, seen_at, events_per_second, last_error
         FROM read_model.tenures WHERE shard = $1 ORDER BY projection",
    )
    .bind(shard.number())
    .fetch_all(pool)
    .await
    .unwrap()
}

fn tenancy(since: OffsetDateTime, positions: PerProjection<i64>) -> Tenancy {
    Tenancy {
        shard: Shard::new(3).unwrap(),
        since,
        positions: Some(positions),
    }
}

/// With a session that is open: a report that takes half a second is given up.
async fn heartbeat(pool: &PgPool, owner: &str) -> Heartbeat {
    sqlx::query("SELECT 1").execute(pool).await.unwrap();
    Heartbeat::new(pool.clone(), owner.to_owned())
}

#[tokio::test]
async fn a_projector_reports_each_projection_of_its_shards_again_and_again() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let projector = stage.projector("group").await;
    let shards: Vec<Shard> = Shard::all().collect();
    let first = eventually("all shards are reported", async || {
        let first = reported(pool, shards[15]).await;
        (first.len() == 3).then_some(first)
    })
    .await;
    for shard in shards {
        let names = reported(pool, shard)
            .await
            .into_iter()
            .map(|it| it.projection);
        let expected = Projection::ALL.map(Projection::name);
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }
    assert!(
        first[0]
            .owner
            .ends_with(&format!(":{}", std::process::id()))
    );
    assert_eq!(first[0].version, env!("CARGO_PKG_VERSION"));

    eventually("it is reported again", async || {
        let later = &reported(pool, Shard::new(15).unwrap()).await[0];
        assert_eq!(later.since, first[0].since);
        (later.seen_at > first[0].seen_at).then_some(())
    })
    .await;
    projector.stop().await;
}

#[tokio::test]
async fn a_rate_is_what_was_applied_since_the_last_report() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let mut heartbeat = heartbeat(pool, "first").await;
    let since = SystemClock.now();
    heartbeat.beat(&[tenancy(since, [5, 5, 5])]).await;
    heartbeat.beat(&[tenancy(since, [5, 1_000_005, 4])]).await;
    let rates = reported(pool, Shard::new(3).unwrap()).await;
    let rates: Vec<f64> = rates.iter().map(|it| it.events_per_second).collect();
    // One has stood still, and one was set back.
    assert!(rates[1] > 0.0, "{rates:?}");
    assert_eq!((rates[0], rates[2]), (0.0, 0.0));
}

#[tokio::test]
async fn an_error_is_reported_and_stays_when_it_has_passed() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let mut heartbeat = heartbeat(pool, "first").await;
    let tenancies = [tenancy(SystemClock.now(), [0; 3])];
    let error = anyhow::anyhow!("no partition {}", "x".repeat(5_000)).context("can't apply events");
    heartbeat.note_error(&error);
    heartbeat.beat(&tenancies).await;
    heartbeat.beat(&tenancies).await;
    let reported = reported(pool, tenancies[0].shard).await;
    assert_eq!(reported.len(), 3);
    for it in reported {
        let error = it.last_error.unwrap();
        assert!(
            error.starts_with("can't apply events: no partition xxx"),
            "{error}"
        );
        assert_eq!(error.len(), 500);
    }
}

#[tokio::test]
async fn who_had_the_shard_before_reports_nothing_while_the_other_does() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let now = SystemClock.now();
    let mut earlier = heartbeat(pool, "earlier").await;
    let mut later = heartbeat(pool, "later").await;
    let before = [tenancy(now - Duration::minutes(1), [0; 3])];
    let after = [tenancy(now, [0; 3])];
    let owner = async || reported(pool, before[0].shard).await[0].owner.clone();
    earlier.beat(&before).await;
    assert_eq!(owner().await, "earlier");
    later.beat(&after).await;
    earlier.beat(&before).await;
    assert_eq!(owner().await, "later");
    sqlx::query("UPDATE read_model.tenures SET seen_at = seen_at - interval '6 seconds'")
        .execute(pool)
        .await
        .unwrap();
    earlier.beat(&before).await;
    assert_eq!(owner().await, "earlier");
}

#[tokio::test]
async fn a_report_that_can_not_be_written_holds_nothing_up() {
    let stage = Stage::set().await;
    let mut tx = stage.database.pool().begin().await.unwrap();
    sqlx::query("LOCK TABLE read_model.tenures")
        .execute(&mut *tx)
        .await
        .unwrap();
    let projector = stage.projector("group").await;
    let account_id = stage.account_with_links("one", 2).await;
    stage.eventually_complete().await;
    for name in ["two", "three"] {
        stage.append_links(account_id, name, 2).await;
        stage.eventually_complete().await;
    }
    tx.rollback().await.unwrap();
    let shard = Shard::of(account_id);
    eventually("it is reported", async || {
        (!reported(stage.database.pool(), shard).await.is_empty()).then_some(())
    })
    .await;
    projector.stop().await;
}
