//! Claims of shards, and the reports of their owners.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use linkledger_core::shard::Shard;
use linkledger_event_store::transaction::PoolTransaction;
use linkledger_projector::{
    pipeline::claims::Claims,
    read_models::{PerProjection, Projection},
};
use linkledger_testing::{eventually, in_all, in_all_but};
use sqlx::{PgPool, raw_sql, types::Json};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep_until};

use crate::fixture::Fixture;

#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
struct Claim {
    owner: String,
    version: String,
    renewed_at: OffsetDateTime,
    events_per_second: Json<BTreeMap<String, f64>>,
    last_error: Option<String>,
}

/// Returns the claim of a shard, if somebody owns the shard.
async fn claim_of(pool: &PgPool, shard: Shard) -> Option<Claim> {
    sqlx::query_as(
        "SELECT owner, version, renewed_at, events_per_second, last_error
         FROM read_model.claims WHERE shard = $1 AND owner_id IS NOT NULL",
    )
    .bind(shard.number())
    .fetch_optional(pool)
    .await
    .unwrap()
}

/// Returns the claims of a process of this name, which owns nothing yet.
fn claims_by(name: &str, pool: &PgPool) -> Claims {
    Claims::new(pool.clone(), name.to_owned())
}

fn shard(number: u16) -> Shard {
    Shard::new(number.into()).unwrap()
}

fn all() -> BTreeSet<Shard> {
    Shard::all().collect()
}

/// Lets the last renewals lie in the past, or in the future.
async fn age(pool: &PgPool, seconds: i16) {
    sqlx::query("UPDATE read_model.claims SET renewed_at = renewed_at - $1 * interval '1 second'")
        .bind(seconds)
        .execute(pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn projector_claims_all_shards_and_renews_them() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let projector = fixture.projector().await;
    for shard in Shard::all() {
        assert!(claim_of(pool, shard).await.is_some());
    }
    let first = claim_of(pool, shard(15)).await.unwrap();
    assert!(first.owner.ends_with(&format!(":{}", std::process::id())));
    assert_eq!(first.version, env!("CARGO_PKG_VERSION"));

    eventually("the claim is renewed", async || {
        let later = claim_of(pool, shard(15)).await.unwrap();
        (later.renewed_at > first.renewed_at).then_some(())
    })
    .await;
    projector.stop().await;
    assert_eq!(claim_of(pool, shard(15)).await, None);
}

#[tokio::test]
async fn second_process_takes_half_and_all_when_first_is_silent() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let mut first = claims_by("first", pool);
    let mut second = claims_by("second", pool);
    first.renew(&[]).await.unwrap();
    assert_eq!(first.owned(), all());
    second.renew(&[]).await.unwrap();
    first.renew(&[]).await.unwrap();
    assert_eq!((first.owned().len(), second.owned().len()), (8, 8));
    assert!(first.owned().is_disjoint(&second.owned()));

    age(pool, 1).await;
    second.renew(&[]).await.unwrap();
    assert_eq!(second.owned().len(), 8);
    age(pool, 60).await;
    second.renew(&[]).await.unwrap();
    assert_eq!(second.owned(), all());
    // The first one wakes: it has nothing any more, and takes its share again.
    first.renew(&[]).await.unwrap();
    second.renew(&[]).await.unwrap();
    assert_eq!((first.owned().len(), second.owned().len()), (8, 8));
    assert!(first.owned().is_disjoint(&second.owned()));
}

#[tokio::test]
async fn claims_expire_also_when_the_clock_is_set_back() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let mut first = claims_by("first", pool);
    let mut second = claims_by("second", pool);
    first.renew(&[]).await.unwrap();
    age(pool, -3_600).await;
    second.renew(&[]).await.unwrap();
    assert_eq!(second.owned(), all());
}

#[tokio::test]
async fn silent_process_keeps_what_nobody_took() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let mut only = claims_by("only", pool);
    only.renew(&[]).await.unwrap();
    age(pool, 60).await;
    only.renew(&[]).await.unwrap();
    assert_eq!(only.owned(), all());
}

#[tokio::test]
async fn released_shards_are_free_at_once() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let mut first = claims_by("first", pool);
    let mut second = claims_by("second", pool);
    first.renew(&[]).await.unwrap();
    first.release().await;
    // Aggregations that count to the end of the topic go on.
    assert_eq!(*first.shards().borrow(), all());
    second.renew(&[]).await.unwrap();
    assert_eq!(second.owned(), all());
}

/// Two processes that claim at the same moment never both own a shard.
#[tokio::test]
async fn claims_at_the_same_moment_are_disjoint() {
    let fixture = Fixture::new().await;
    let pool = fixture.databases(linkledger_event_store::SessionKind::Projector, 8);
    let names = ["a", "b", "c", "d", "e"];
    let mut processes = names.map(|name| Claims::new(pool.read.clone(), name.to_owned()));
    for _ in 0..8 {
        let renewals = processes.iter_mut().map(|it| it.renew(&[]));
        for renewed in futures::future::join_all(renewals).await {
            renewed.unwrap();
        }
    }
    // What was taken from a process meanwhile, it learns at its next renewal.
    for process in &mut processes {
        process.renew(&[]).await.unwrap();
    }
    let owned: Vec<Shard> = processes.iter().flat_map(Claims::owned).collect();
    assert_eq!(owned.len(), 16);
    assert_eq!(owned.into_iter().collect::<BTreeSet<_>>(), all());
    assert!(
        processes
            .iter()
            .all(|it| (3..=4).contains(&it.owned().len()))
    );
}

#[tokio::test]
async fn rate_counts_events_since_previous_renewal() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let mut claims = claims_by("first", pool);
    let report = |positions: PerProjection<i64>| [(shard(3), positions.map(Some))];
    claims.renew(&report(in_all(5))).await.unwrap();
    claims.renew(&report(in_all(5))).await.unwrap();
    let later = in_all_but(
        5,
        [(Projection::Links, 1_000_005), (Projection::Redirects, 4)],
    );
    claims.renew(&report(later)).await.unwrap();
    let rates = claim_of(pool, shard(3)).await.unwrap().events_per_second;
    let rate = |projection: Projection| rates[projection.name()];
    assert!(rate(Projection::Links) > 0.0, "{rates:?}");
    // `credits` made no progress, and `redirects` was set back.
    assert_eq!(
        (rate(Projection::Credits), rate(Projection::Redirects)),
        (0.0, 0.0)
    );
}

#[tokio::test]
async fn error_stays_reported_after_recovery() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let mut claims = claims_by("first", pool);
    let error = anyhow::anyhow!("no partition {}", "x".repeat(5_000)).context("can't apply events");
    claims.record_error(&error);
    claims.renew(&[]).await.unwrap();
    claims.renew(&[]).await.unwrap();
    let claim = claim_of(pool, shard(3)).await.unwrap();
    let error = claim.last_error.unwrap();
    assert!(
        error.starts_with("can't apply events: no partition xxx"),
        "{error}"
    );
    assert_eq!(error.len(), 500);
}

#[tokio::test]
async fn failed_renewal_keeps_the_shards() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let mut claims = claims_by("first", pool);
    claims.renew(&[]).await.unwrap();
    let mut tx = PoolTransaction::begin(pool).await.unwrap();
    raw_sql("LOCK TABLE read_model.claims")
        .execute(&mut *tx)
        .await
        .unwrap();
    claims.renew(&[]).await.unwrap_err();
    assert_eq!(claims.owned(), all());
    tx.rollback().await.unwrap();
}

/// After a silence of the database, all claims have expired: whoever comes first must not take those of the others.
#[tokio::test]
async fn process_that_could_not_renew_takes_nothing_at_once() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let mut first = claims_by("first", pool);
    let mut second = claims_by("second", pool);
    first.renew(&[]).await.unwrap();
    second.renew(&[]).await.unwrap();
    first.renew(&[]).await.unwrap();
    let silence = Instant::now();
    let owned = [first.owned(), second.owned()];
    age(pool, 60).await;
    // The time of the processes, not a wait for something to happen.
    sleep_until(silence + Duration::from_secs(4)).await;
    first.renew(&[]).await.unwrap();
    second.renew(&[]).await.unwrap();
    assert_eq!([first.owned(), second.owned()], owned);
    // A process whose renewals are all that far apart takes the shards of one that is gone at its second renewal.
    first.renew(&[]).await.unwrap();
    let silence = Instant::now();
    sleep_until(silence + Duration::from_secs(4)).await;
    first.renew(&[]).await.unwrap();
    assert_eq!(first.owned(), owned[0]);
    sleep_until(silence + Duration::from_secs(8)).await;
    first.renew(&[]).await.unwrap();
    assert_eq!(first.owned(), all());
}
