//! A projector that freezes in the middle of a batch: another takes over, and the first one does no
//! harm when it wakes.

use std::{collections::BTreeSet, env, time::Duration};

use linkledger_core::{id::AccountId, shard::Shard};
use linkledger_projector::operations::pause::{FollowerName, PauseChange, change};
use linkledger_testing::{eventually, eventually_within};
use sqlx::{PgPool, raw_sql};
use tokio::time::Instant;

use crate::{
    cache_changes::{changes, subjects_of_log},
    events::destination_changed,
    fixture::Fixture,
    gate::Gate,
    process::Process,
    tables::Tables,
};

/// Longest time until another process has the shards of a frozen one: its claims expire after 3 s; the rest is for a
/// busy machine.
const TAKE_OVER_TIME_MAX: Duration = Duration::from_mins(1);

/// Duration of the freeze.
fn freeze() -> Duration {
    let seconds = env::var("LINKLEDGER_TEST_FREEZE_SECONDS").ok();
    let seconds = seconds.map_or(12, |seconds| seconds.parse().unwrap());
    Duration::from_secs(seconds)
}

/// Returns the process that owns the shard, and the time of its last renewal.
async fn owner(pool: &PgPool, shard: Shard) -> Option<(String, time::OffsetDateTime)> {
    sqlx::query_as("SELECT owner, renewed_at FROM read_model.claims WHERE shard = $1")
        .bind(shard.number())
        .fetch_optional(pool)
        .await
        .unwrap()
}

/// Waits until the given number of processes own all shards.
async fn shared_by(pool: &PgPool, processes: usize) {
    eventually("the shards are shared", async || {
        let owners: Vec<(String, i16)> = sqlx::query_as(
            "SELECT owner, shard FROM read_model.claims
             WHERE renewed_at > now() - interval '3 seconds'",
        )
        .fetch_all(pool)
        .await
        .unwrap();
        let names: BTreeSet<_> = owners.iter().map(|it| &it.0).collect();
        (owners.len() == 16 && names.len() == processes).then_some(())
    })
    .await;
}

/// Records each committed write of a ledger entry, by a trigger.
pub(crate) async fn note_writes(pool: &PgPool) {
    raw_sql(
        "CREATE TABLE writes (account_id uuid, version bigint);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO writes VALUES (NEW.account_id, NEW.version);
             RETURN NULL;
         END $$;
         CREATE TRIGGER note AFTER INSERT OR UPDATE ON read_model.credit_entries
             FOR EACH ROW EXECUTE FUNCTION note();",
    )
    .execute(pool)
    .await
    .unwrap();
}

/// Returns the versions of ledger entries that were written more than once, with the number of their writes.
pub(crate) async fn repeated_writes(pool: &PgPool) -> Vec<(i64, i64)> {
    sqlx::query_as(
        "SELECT version, count(*) FROM writes GROUP BY account_id, version HAVING count(*) > 1",
    )
    .fetch_all(pool)
    .await
    .unwrap()
}

/// Creates and changes a link, and publishes the events.
async fn one_more(fixture: &Fixture, account_id: AccountId, name: &str) {
    let published = fixture.log().await.len();
    let link = fixture.append_links(account_id, name, 1).await.remove(0);
    let url = format!("https://{name}.example/");
    fixture
        .append(account_id, &[destination_changed(&link, &url)])
        .await;
    fixture.publish(&fixture.log().await[published..]).await;
}

#[tokio::test]
async fn frozen_projector_is_replaced_and_applies_nothing_twice() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("before", 2).await;
    note_writes(pool).await;
    let processes = [(); 2].map(|()| Process::start(&fixture));
    fixture.publish(&fixture.log().await).await;
    shared_by(pool, 2).await;
    fixture.eventually_complete().await;

    let gate = Gate::build(pool).await;
    one_more(&fixture, account_id, "frozen").await;
    gate.is_reached().await;
    let (name, _) = owner(pool, Shard::of(account_id)).await.unwrap();
    let mut processes = processes.iter();
    let frozen = processes.find(|it| it.is(&name)).unwrap();
    frozen.freeze();
    let frozen_at = Instant::now();
    gate.open().await;
    let expected = Tables::of_log(&fixture.log().await);
    eventually_within(TAKE_OVER_TIME_MAX, "the other takes over", async || {
        (Tables::read(pool).await == expected).then_some(())
    })
    .await;
    tracing::info!(took = ?frozen_at.elapsed(), "the other has taken over");
    for turn in 0.. {
        one_more(&fixture, account_id, &format!("meanwhile-{turn}")).await;
        fixture.eventually_complete().await;
        if frozen_at.elapsed() >= freeze() {
            break;
        }
    }
    frozen.wake();
    for name in ["awake", "shared"] {
        one_more(&fixture, account_id, name).await;
        fixture.eventually_complete().await;
        shared_by(pool, 2).await;
    }

    assert_eq!(repeated_writes(pool).await, []);
    let told: Vec<_> = changes(pool).await;
    let subjects: BTreeSet<_> = told.iter().map(|it| (it.1.clone(), it.2)).collect();
    assert_eq!(subjects, subjects_of_log(&fixture.log().await));
    assert_eq!(told.len(), subjects.len());
}

#[tokio::test]
async fn pause_holds_against_frozen_projector() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("before", 2).await;
    let process = Process::start(&fixture);
    shared_by(pool, 1).await;
    fixture.eventually_complete().await;
    let before = Tables::read(pool).await;

    let gate = Gate::build(pool).await;
    one_more(&fixture, account_id, "frozen").await;
    gate.is_reached().await;
    process.freeze();
    let (_, renewed_at) = owner(pool, Shard::of(account_id)).await.unwrap();
    gate.open().await;
    let paused = change(pool, &FollowerName::ALL, PauseChange::Pause, "ada", None).await;
    assert!(paused.unwrap().iter().all(|it| it.is_changed));
    assert_eq!(Tables::read(pool).await, before);

    process.wake();
    eventually("it is awake", async || {
        let (_, at) = owner(pool, Shard::of(account_id)).await?;
        (at > renewed_at).then_some(())
    })
    .await;
    one_more(&fixture, account_id, "awake").await;
    // Between two renewals there is a cycle.
    for _ in 0..2 {
        let (_, renewed_at) = owner(pool, Shard::of(account_id)).await.unwrap();
        eventually("it has had time to apply it", async || {
            let (_, at) = owner(pool, Shard::of(account_id)).await?;
            (at > renewed_at).then_some(())
        })
        .await;
    }
    assert_eq!(Tables::read(pool).await, before);

    change(pool, &FollowerName::ALL, PauseChange::Resume, "ada", None)
        .await
        .unwrap();
    fixture.eventually_complete().await;
}
