//! Pause of projections: a paused projection keeps its position, and the others continue.

use std::{sync::Arc, time::Duration};

use linkledger_core::shard::Shard;
use linkledger_projector::{
    operations::pause::{FollowerName, PauseChange, Paused, change},
    pipeline::{
        apply::{ApplyConflict, ShardBatch, apply},
        checkpoint::{self, Role},
        decode::BatchEvent,
        followers::Followers,
    },
    read_models::{Projection, skipped::Skipped},
};
use linkledger_testing::in_background;
use sqlx::PgPool;

use crate::{
    fixture::Fixture,
    gate::{Gate, session_waits},
    tables::Tables,
};

async fn set(pool: &PgPool, targets: &[FollowerName], wish: PauseChange) -> Vec<Paused> {
    change(pool, targets, wish, "ada", Some("a test"))
        .await
        .unwrap()
}

async fn pause(pool: &PgPool) {
    set(pool, &[FollowerName::Links], PauseChange::Pause).await;
}

async fn resume(pool: &PgPool) {
    set(pool, &[FollowerName::Links], PauseChange::Resume).await;
}

/// Returns the tables that the log wants if `links` has applied only the first events.
async fn tables_with_links_of(fixture: &Fixture, events: usize) -> Tables {
    let log = fixture.log().await;
    let (mut tables, earlier) = (Tables::of_log(&log), Tables::of_log(&log[..events]));
    (tables.links, tables.tags) = (earlier.links, earlier.tags);
    tables.checkpoints.retain(|(name, _), _| name != "links");
    let checkpoints = earlier.checkpoints.into_iter();
    let checkpoints = checkpoints.filter(|((name, _), _)| name == "links");
    tables.checkpoints.extend(checkpoints);
    tables
}

/// Runs cycles until the read tables are as expected and no work is left.
async fn eventually_tables(fixture: &Fixture, followers: &mut Followers, expected: Tables) {
    // Several cycles, because the followers read the checkpoints once a second.
    let mut read = Tables::default();
    for _ in 0..3_000 {
        followers.cycle(Vec::new()).await.unwrap();
        read = Tables::read(fixture.database.pool()).await;
        if read == expected && !followers.has_work() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(read, expected);
    assert!(!followers.has_work());
}

#[tokio::test]
async fn paused_projection_stops_and_others_continue() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("before", 3).await;
    let mut followers = fixture.followers();
    let before = fixture.log().await;
    followers.cycle(before.clone()).await.unwrap();
    pause(pool).await;

    for name in ["one", "two"] {
        let applied = fixture.log().await.len();
        fixture.append_links(account_id, name, 3).await;
        let delivered = fixture.log().await.split_off(applied);
        followers.cycle(delivered).await.unwrap();
        let expected = tables_with_links_of(&fixture, before.len()).await;
        eventually_tables(&fixture, &mut followers, expected).await;
    }

    resume(pool).await;
    let complete = Tables::of_log(&fixture.log().await);
    eventually_tables(&fixture, &mut followers, complete).await;
}

#[tokio::test]
async fn pause_of_all_stops_everything_until_resumed() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    set(pool, &FollowerName::ALL, PauseChange::Pause).await;
    fixture.account_with_links("waits", 3).await;
    let mut followers = fixture.followers();
    followers.cycle(fixture.log().await).await.unwrap();
    eventually_tables(&fixture, &mut followers, Tables::default()).await;

    set(pool, &FollowerName::ALL, PauseChange::Resume).await;
    let complete = Tables::of_log(&fixture.log().await);
    eventually_tables(&fixture, &mut followers, complete).await;
}

#[tokio::test]
async fn batch_begun_before_pause_is_not_written() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("late", 2).await;
    let shard = Shard::of(account_id);
    let live = checkpoint::load_live(pool, &[shard]).await.unwrap();
    let checkpoints = Projection::ALL.map(|projection| {
        let row = live.iter().find(|it| it.projection == projection);
        (projection, row.unwrap().checkpoint)
    });
    let events = fixture.log().await;
    let late = ShardBatch {
        shard,
        checkpoints: checkpoints.to_vec(),
        events: events
            .into_iter()
            .map(|it| Arc::new(BatchEvent::decode(it.event)))
            .collect(),
        parked: [].into(),
        skipped: Skipped::default(),
    };
    pause(pool).await;
    let outcome = apply(pool, std::slice::from_ref(&late), Role::Live).await;
    assert_eq!(outcome.unwrap(), Err(ApplyConflict::ProjectionPaused));
    assert_eq!(Tables::read(pool).await, Tables::default());

    resume(pool).await;
    let outcome = apply(pool, &[late], Role::Live).await;
    assert!(matches!(outcome, Ok(Ok(_))), "{outcome:?}");
    assert_eq!(
        Tables::read(pool).await,
        Tables::of_log(&fixture.log().await)
    );
}

#[tokio::test]
async fn pause_returns_after_the_running_batch() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool().clone();
    let gate = Gate::build(&pool).await;
    fixture.account_with_links("batch", 3).await;
    let log = fixture.log().await;
    let mut followers = fixture.followers();
    let batch = in_background(async move { followers.cycle(log).await });
    gate.is_reached().await;
    let paused = {
        let pool = pool.clone();
        in_background(async move { set(&pool, &[FollowerName::Links], PauseChange::Pause).await })
    };
    session_waits(&pool, "transactionid", "%FROM read_model.checkpoints%").await;
    assert!(!paused.is_finished());
    gate.open().await;

    let paused = paused.await.unwrap();
    assert_eq!(
        Tables::read(&pool).await,
        Tables::of_log(&fixture.log().await)
    );
    assert!(paused[0].is_changed && paused[0].paused_at.is_some());
    batch.await.unwrap().unwrap();
}

#[tokio::test]
async fn lagging_projection_does_not_delay_others() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("before", 1).await;
    pause(pool).await;
    let mut followers = fixture.followers();
    for name in ["one", "two", "three"] {
        fixture.append_links(account_id, name, 2_000).await;
    }
    let before = tables_with_links_of(&fixture, 0).await;
    followers.cycle(fixture.log().await).await.unwrap();
    eventually_tables(&fixture, &mut followers, before).await;

    resume(pool).await;
    let mut followers = fixture.followers();
    let applied = fixture.log().await.len();
    fixture.append_links(account_id, "news", 1).await;
    let log = fixture.log().await;
    followers.cycle(log[applied..].to_vec()).await.unwrap();
    // The other projections have applied everything, the lagging one a first chunk.
    let tables = Tables::read(pool).await;
    let expected = Tables::of_log(&log);
    assert_eq!(tables.balances, expected.balances);
    assert!(
        (2..6_001).contains(&tables.links.len()),
        "{}",
        tables.links.len()
    );
    assert!(followers.has_work());
    eventually_tables(&fixture, &mut followers, expected).await;
}

#[tokio::test]
async fn pause_without_a_change_is_not_recorded() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let first = set(pool, &[FollowerName::Links], PauseChange::Pause).await;
    let second = set(pool, &FollowerName::ALL, PauseChange::Pause).await;
    let changed = second.iter().map(|it| (it.follower, it.is_changed));
    let expected = FollowerName::ALL.map(|it| (it, it != FollowerName::Links));
    assert_eq!(changed.collect::<Vec<_>>(), expected);
    assert_eq!(
        second[Projection::Links.index()].paused_at,
        first[0].paused_at
    );
    resume(pool).await;
    resume(pool).await;
    let recorded: Vec<(String, String, String, String, String)> = sqlx::query_as(
        "SELECT command, coalesce(projection, subject), operator, reason, outcome FROM read_model.operations
         ORDER BY operation_id",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let row = |command: &str, target: &str| {
        let texts = [command, target, "ada", "a test", "done"];
        texts.map(str::to_owned).into()
    };
    let others = FollowerName::ALL
        .into_iter()
        .filter(|it| *it != FollowerName::Links);
    let mut expected = vec![row("pause", "links")];
    expected.extend(others.map(|it| row("pause", it.name())));
    expected.push(row("resume", "links"));
    assert_eq!(recorded, expected);
}
