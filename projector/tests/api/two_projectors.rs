//! Two projectors with the same shards, as after a claim was taken from a living process or from a zombie.

use std::{collections::BTreeSet, sync::Arc};

use linkledger_core::shard::Shard;
use linkledger_projector::{
    pipeline::{
        apply::{ApplyConflict, ShardBatch, apply},
        checkpoint::{Checkpoint, Role},
        decode::BatchEvent,
    },
    read_models::{Projection, skipped::Skipped},
};

use crate::{
    fixture::Fixture,
    frozen::{note_writes, repeated_writes},
    tables::Tables,
};

#[tokio::test]
async fn two_projectors_share_shards_and_one_takes_over() {
    let fixture = Fixture::new().await;
    let first = fixture.projector().await;
    let second = fixture.projector().await;
    for name in ["one", "two", "three", "four"] {
        fixture.account_with_links(name, 10).await;
    }
    fixture.publish(&fixture.log().await).await;
    fixture.eventually_complete().await;
    first.stop().await;

    for name in ["five", "six", "seven", "eight"] {
        fixture.account_with_links(name, 10).await;
    }
    fixture.eventually_complete().await;
    second.stop().await;
}

#[tokio::test]
async fn zombie_writes_nothing_and_resumes_at_checkpoint() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("before", 2).await;
    let (mut zombie, mut other) = (fixture.followers(), fixture.followers());
    let log = fixture.log().await;
    zombie.cycle(log[..1].to_vec()).await.unwrap();
    other.cycle(log.clone()).await.unwrap();
    let tables = Tables::read(fixture.database.pool()).await;

    zombie.cycle(log[1..3].to_vec()).await.unwrap();
    assert_eq!(Tables::read(fixture.database.pool()).await, tables);

    fixture.append_links(account_id, "after", 2).await;
    let log = fixture.log().await;
    zombie.cycle(log.clone()).await.unwrap();
    other.cycle(log.clone()).await.unwrap();
    assert_eq!(
        Tables::read(fixture.database.pool()).await,
        Tables::of_log(&log)
    );
}

#[tokio::test]
async fn concurrent_processes_apply_each_event_once() {
    let fixture = Fixture::new().await;
    for name in ["one", "two", "three"] {
        fixture.account_with_links(name, 100).await;
    }
    let log = fixture.log().await;
    note_writes(fixture.database.pool()).await;
    let (mut first, mut second) = (fixture.followers(), fixture.followers());
    let expected = Tables::of_log(&log);
    for chunk in log.chunks(50) {
        let (first, second) =
            tokio::join!(first.cycle(chunk.to_vec()), second.cycle(chunk.to_vec()));
        first.unwrap();
        second.unwrap();
    }
    assert_eq!(Tables::read(fixture.database.pool()).await, expected);
    assert_eq!(repeated_writes(fixture.database.pool()).await, []);
}

#[tokio::test]
async fn transaction_from_stale_checkpoint_writes_nothing() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("late", 2).await;
    let shard = Shard::of(account_id);
    let log = fixture.log().await;
    fixture.followers().cycle(log.clone()).await.unwrap();
    let tables = Tables::read(fixture.database.pool()).await;

    let beginning = Checkpoint {
        generation: 1,
        epoch: 1,
        position: 0,
    };
    let late = ShardBatch {
        shard,
        checkpoints: Projection::ALL.map(|it| (it, beginning)).to_vec(),
        // If written, the old balance would replace the latest one.
        events: log
            .into_iter()
            .take(3)
            .map(|it| Arc::new(BatchEvent::decode(it.event)))
            .collect(),
        parked: BTreeSet::new(),
        skipped: Skipped::default(),
    };
    let outcome = apply(fixture.database.pool(), &[late], Role::Live).await;
    let outcome = outcome.unwrap();
    assert_eq!(outcome, Err(ApplyConflict::CheckpointMoved([shard].into())));
    assert_eq!(Tables::read(fixture.database.pool()).await, tables);
}
