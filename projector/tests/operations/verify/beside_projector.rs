//! `verify` and `--repair` while events come and a projector applies them.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use linkledger_core::{
    event_store::{self, SessionKind},
    id::AccountId,
};
use linkledger_projector::{
    operations::{
        parked::retry,
        verify::{self, FindingKind, SESSIONS},
    },
    read_models::Projection,
};
use sqlx::PgPool;
use tokio::runtime;

use super::{damage, findings, repair_all};
use crate::{
    cycles::cycle_until_idle,
    events::{adjusted, deleted, destination_changed, disabled, resumed, suspended},
    poisoned::{paint, restore},
    stage::Stage,
};

const ROUNDS: i64 = 12;

/// Appends round `nth` of an account, from 0.
async fn append_round(stage: &Stage, account_id: AccountId, name: &str, nth: i64) {
    let links = stage
        .append_links(account_id, &format!("{name}-{nth}"), 4)
        .await;
    let events = [
        destination_changed(&links[0], "https://elsewhere.example/"),
        disabled(&links[1]),
        deleted(&links[2]),
        suspended(account_id, nth % 2 == 0),
        adjusted(account_id, -1, 1_000_000 - 5 * (nth + 1)),
    ];
    stage.append(account_id, &events).await;
    stage.append(account_id, &[resumed(account_id)]).await;
}

#[tokio::test]
async fn verify_beside_running_projector_finds_nothing() {
    let stage = Stage::set().await;
    let first = stage.account_with_links("first", 0).await;
    let second = stage.neighbour_with_links(first, "second", 0).await;
    let projector = stage.projector().await;
    let is_over = AtomicBool::new(false);
    let appends = async {
        for round in 0..ROUNDS {
            append_round(&stage, first, "first", round).await;
            if round % 4 == 1 {
                let unknown = stage.log().await.pop().unwrap();
                paint(stage.database.pool(), &unknown).await;
                append_round(&stage, second, "second", round / 4).await;
                restore(stage.database.pool(), &unknown).await;
            }
            retry(&stage.database.pool().clone().into(), None)
                .await
                .unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let verifications = async {
        while !is_over.load(Ordering::Relaxed) {
            assert_eq!(findings(&stage).await, []);
        }
    };
    tokio::join!(appends, verifications);
    retry(&stage.database.pool().clone().into(), None)
        .await
        .unwrap();
    stage.eventually_complete().await;
    projector.stop().await;
    assert_eq!(findings(&stage).await, []);
}

#[tokio::test]
async fn repair_beside_running_projector_matches_the_log() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let account_id = stage.account_with_links("owner", 8).await;
    let projector = stage.projector().await;
    stage.eventually_complete().await;
    for statement in [
        "UPDATE read_model.links SET destination_url = 'x', slug = 'x' WHERE slug = 'owner-1X'",
        "UPDATE read_model.redirects SET state = 'deleted' WHERE slug_folded = 'owner-2x'",
        "DELETE FROM read_model.credit_entries WHERE balance_after = 999995",
        "UPDATE read_model.credit_balances SET balance = 7",
        "INSERT INTO read_model.stopped_accounts SELECT 1, account_id FROM read_model.credit_balances",
    ] {
        damage(pool, statement).await;
    }
    let appends = async {
        for round in 0..ROUNDS {
            let name = format!("round-{round}");
            stage.append_links(account_id, &name, 3).await;
        }
    };
    tokio::join!(appends, repair_all(&stage));
    stage.eventually_complete().await;
    projector.stop().await;
    assert_eq!(findings(&stage).await, []);
}

#[tokio::test]
async fn verify_compares_accounts_released_meanwhile() {
    let stage = Stage::set().await;
    let pool = stage.database.pool();
    let parked = stage.account_with_links("parked", 1).await;
    let unknown = stage.log().await.pop().unwrap();
    paint(pool, &unknown).await;
    // More than a bucket: the rows are compared long before the end.
    stage.neighbour_with_links(parked, "neighbour", 2_600).await;
    let mut followers = stage.followers();
    followers.cycle(stage.log().await).await.unwrap();
    cycle_until_idle(&mut followers).await;
    restore(pool, &unknown).await;

    let is_released = AtomicBool::new(false);
    let release = |events| {
        if events == 5_000 && !is_released.swap(true, Ordering::Relaxed) {
            let url = stage.database.url();
            thread::scope(|scope| scope.spawn(|| release_and_damage(url)).join().unwrap());
        }
    };
    let target = super::first_generation(Projection::Links);
    // The release blocks the thread while another snapshot is open: no timeout may end it.
    let url = stage.database.url();
    let session = event_store::pool(url, SessionKind::Reader, SESSIONS).unwrap();
    let verified = verify::verify_generation(&session.clone().into(), target, &release).await;
    let named = verified.unwrap().findings.named;
    assert!(is_released.into_inner());
    assert_eq!(named.len(), 1);
    assert_eq!(
        (named[0].kind, named[0].account_id),
        (FindingKind::Different, parked)
    );
    // The tables are read by key without statistics too.
    assert_eq!(findings(&stage).await.len(), 1);
}

fn release_and_damage(url: &str) {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        let pool = PgPool::connect(url).await.unwrap();
        let retried = retry(&pool.clone().into(), None).await.unwrap();
        assert!(retried.iter().all(|it| it.released));
        let wrong = "UPDATE read_model.links SET destination_url = 'x' WHERE slug = 'parked-0X'";
        damage(&pool, wrong).await;
        pool.close().await;
    });
}
