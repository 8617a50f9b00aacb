//! A log that was restored, and the runbook for it.

use std::time::{Duration, Instant};

use linkledger_core::{cloud_event::PublishedEvent, shard::Shard};
use linkledger_projector::pipeline::engine::Engine;

use crate::{
    rebuild::{TO_SWAP, rebuild_all, sessions},
    stage::Stage,
    tables::Tables,
};

async fn apply_until_complete(stage: &Stage) {
    let mut engine = stage.engine();
    let log = stage.log().await;
    for _ in 0..1_000 {
        engine.cycle(Vec::new()).await.unwrap();
        if Tables::read(stage.database.pool()).await == Tables::of_log(&log) {
            return;
        }
    }
    panic!("the read tables do not become what the log says");
}

async fn run(stage: &Stage, statement: &str) {
    let statement = sqlx::AssertSqlSafe(statement.to_owned());
    let done = sqlx::raw_sql(statement).execute(stage.database.pool());
    done.await.unwrap();
}

/// The lowest checkpoint of a shard.
async fn floor(stage: &Stage, shard: Shard) -> i64 {
    let floor =
        "SELECT min(position) FROM read_model.checkpoints WHERE shard = $1 AND role = 'live'";
    let floor = sqlx::query_scalar(floor).bind(shard.number());
    floor.fetch_one(stage.database.pool()).await.unwrap()
}

/// Goes on with the same engine until the shard is that far.
async fn cycle_until(stage: &Stage, engine: &mut Engine, (shard, position): (Shard, i64)) {
    let until = Instant::now() + Duration::from_mins(2);
    while floor(stage, shard).await != position {
        assert!(Instant::now() < until, "shard {shard} is not at {position}");
        engine.cycle(Vec::new()).await.unwrap();
    }
}

#[tokio::test]
async fn a_shard_that_is_not_of_this_log_is_refused_while_the_others_go_on_until_it_is_mended() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("refused", 1).await;
    let shard = Shard::of(account_id);
    let other = stage.account_with_links("other", 1).await;
    let mut others = vec![other];
    while Shard::of(others[0]) == shard {
        let prefix = format!("another-{}", others.len());
        others.insert(0, stage.account_with_links(&prefix, 1).await);
    }
    let other = Shard::of(others[0]);
    let heads = linkledger_core::event_store::log::heads(stage.database.pool());
    let heads = heads.await.unwrap();
    let (head, other_head) = (heads[shard.index()], heads[other.index()]);
    for (wrong, mended) in [
        ("position = 99", "position = 0"),
        ("epoch = 7", "epoch = 1"),
    ] {
        let set = |to: &str, shard: Shard| {
            format!("UPDATE read_model.checkpoints SET {to} WHERE shard = {shard};")
        };
        // Of one projection only.
        let one = format!(
            "{} AND projection = 'links'",
            set(wrong, shard).trim_end_matches(';')
        );
        let empty = "TRUNCATE read_model.links, read_model.redirects, read_model.credit_balances,
            read_model.credit_entries;
            UPDATE read_model.checkpoints SET position = 0, epoch = 1;";
        run(&stage, &[empty, &one].concat()).await;
        let mut engine = stage.engine();
        cycle_until(&stage, &mut engine, (other, other_head)).await;
        assert_eq!(floor(&stage, shard).await, 0);
        // There is nothing to do at once: it is no reason to spin.
        assert!(!engine.is_behind());
        run(&stage, &set(mended, shard)).await;
        cycle_until(&stage, &mut engine, (shard, head)).await;
    }
}

#[tokio::test]
async fn after_the_epoch_is_raised_a_rebuild_brings_the_read_tables_to_it_and_all_goes_on() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("before", 3).await;
    apply_until_complete(&stage).await;
    let mut engine = stage.engine();
    cycle_until(&stage, &mut engine, (Shard::of(account_id), 7)).await;
    run(&stage, "UPDATE event_store.log_meta SET epoch = 2").await;
    let before = Tables::read(stage.database.pool()).await;
    stage.append_links(account_id, "after", 2).await;
    let mut restarted = stage.engine();
    restarted.cycle(Vec::new()).await.unwrap();
    assert_eq!(Tables::read(stage.database.pool()).await, before);

    rebuild_all(&sessions(&stage), TO_SWAP).await;
    let log = stage.log().await;
    let rebuilt = Tables::read_generation(stage.database.pool(), 2).await;
    assert_eq!(rebuilt, Tables::of_log(&log));
    let epochs = "SELECT DISTINCT epoch FROM read_model.checkpoints WHERE role = 'live'";
    let epochs: Vec<i32> = sqlx::query_scalar(epochs)
        .fetch_all(stage.database.pool())
        .await
        .unwrap();
    assert_eq!(epochs, [2]);
    // Those that run go on.
    stage.append_links(account_id, "last", 1).await;
    for engine in [&mut restarted, &mut engine] {
        cycle_until(&stage, engine, (Shard::of(account_id), 13)).await;
    }
}

#[tokio::test]
async fn a_projector_that_runs_while_the_epoch_is_raised_applies_nothing_more() {
    let stage = Stage::set().await;
    let account_id = stage.account_with_links("before", 3).await;
    let shard = Shard::of(account_id);
    let mut engine = stage.engine();
    cycle_until(&stage, &mut engine, (shard, 7)).await;
    run(&stage, "UPDATE event_store.log_meta SET epoch = 2").await;
    let until = Instant::now() + Duration::from_mins(2);
    while engine.tenancies().iter().any(|it| it.positions.is_some()) {
        assert!(Instant::now() < until, "it goes on in the former epoch");
        engine.cycle(Vec::new()).await.unwrap();
    }
    stage.append_links(account_id, "after", 2).await;
    let log = stage.log().await.into_iter();
    let log = log.map(|it| PublishedEvent { log_epoch: 2, ..it });
    engine.cycle(log.collect()).await.unwrap();
    assert!(!engine.is_behind());
    assert_eq!(floor(&stage, shard).await, 7);
}
