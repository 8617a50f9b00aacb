//! Reports of projectors on their shards.

use linkledger_core::{
    clock::{Clock as _, SystemClock},
    event_store::transaction::PoolTransaction,
    shard::Shard,
};
use linkledger_projector::{
    pipeline::heartbeat::{AssignmentReport, Heartbeat},
    read_models::{PerProjection, Projection},
};
use linkledger_testing::{eventually, in_all, in_all_but};
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

/// Returns the reports on a shard, by projection.
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

fn shard_report(since: OffsetDateTime, positions: PerProjection<i64>) -> AssignmentReport {
    AssignmentReport {
        shard: Shard::new(3).unwrap(),
        since,
        positions: Some(positions),
    }
}

#[tokio::test]
async fn projector_reports_its_shards_every_second() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let projector = stage.projector("group").await;
    let shards: Vec<Shard> = Shard::all().collect();
    let first = eventually("all shards are reported", async || {
        let first = reported(pool, shards[15]).await;
        (first.len() == Projection::ALL.len()).then_some(first)
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
async fn rate_counts_events_since_previous_report() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let mut heartbeat = Heartbeat::new(pool.clone(), "first".to_owned());
    let since = SystemClock.now();
    heartbeat
        .report(&[shard_report(since, in_all(5))])
        .await
        .unwrap();
    let later = in_all_but(
        5,
        [(Projection::Links, 1_000_005), (Projection::Redirects, 4)],
    );
    heartbeat
        .report(&[shard_report(since, later)])
        .await
        .unwrap();
    let rates = reported(pool, Shard::new(3).unwrap()).await;
    let rates: Vec<f64> = rates.iter().map(|it| it.events_per_second).collect();
    let rate = |projection: Projection| rates[projection.index()];
    assert!(rate(Projection::Links) > 0.0, "{rates:?}");
    // `credits` made no progress, and `redirects` was set back.
    assert_eq!(
        (rate(Projection::Credits), rate(Projection::Redirects)),
        (0.0, 0.0)
    );
}

#[tokio::test]
async fn error_stays_reported_after_recovery() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let mut heartbeat = Heartbeat::new(pool.clone(), "first".to_owned());
    let reports = [shard_report(SystemClock.now(), in_all(0))];
    let error = anyhow::anyhow!("no partition {}", "x".repeat(5_000)).context("can't apply events");
    heartbeat.record_error(&error);
    heartbeat.report(&reports).await.unwrap();
    heartbeat.report(&reports).await.unwrap();
    let reported = reported(pool, reports[0].shard).await;
    assert_eq!(reported.len(), Projection::ALL.len());
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
async fn former_owner_does_not_overwrite_report() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let now = SystemClock.now();
    let mut earlier = Heartbeat::new(pool.clone(), "earlier".to_owned());
    let mut later = Heartbeat::new(pool.clone(), "later".to_owned());
    let before = [shard_report(now - Duration::minutes(1), in_all(0))];
    let after = [shard_report(now, in_all(0))];
    let owner = async || reported(pool, before[0].shard).await[0].owner.clone();
    earlier.report(&before).await.unwrap();
    assert_eq!(owner().await, "earlier");
    later.report(&after).await.unwrap();
    earlier.report(&before).await.unwrap();
    assert_eq!(owner().await, "later");
    sqlx::query("UPDATE read_model.tenures SET seen_at = seen_at - interval '6 seconds'")
        .execute(pool)
        .await
        .unwrap();
    earlier.report(&before).await.unwrap();
    assert_eq!(owner().await, "earlier");
}

#[tokio::test]
async fn failed_report_delays_nothing() {
    let stage = Stage::set().await;
    let mut tx = PoolTransaction::begin(stage.database.pool()).await.unwrap();
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
