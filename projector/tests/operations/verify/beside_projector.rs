//! `verify` and `--repair` while events come and a projector applies them.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use linkledger_core::id::AccountId;
use linkledger_event_store::SessionKind;
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
    fixture::Fixture,
    poisoned::{paint, restore},
};

const ROUNDS: i64 = 12;

/// Appends round `nth` of an account, from 0.
async fn append_round(fixture: &Fixture, account_id: AccountId, name: &str, nth: i64) {
    let links = fixture
        .append_links(account_id, &format!("{name}-{nth}"), 4)
        .await;
    let events = [
        destination_changed(&links[0], "https://elsewhere.example/"),
        disabled(&links[1]),
        deleted(&links[2]),
        suspended(account_id, nth % 2 == 0),
        adjusted(account_id, -1, 1_000_000 - 5 * (nth + 1)),
    ];
    fixture.append(account_id, &events).await;
    fixture.append(account_id, &[resumed(account_id)]).await;
}

#[tokio::test]
async fn verify_beside_running_projector_finds_nothing() {
    let fixture = Fixture::new().await;
    let first = fixture.account_with_links("first", 0).await;
    let second = fixture.neighbour_with_links(first, "second", 0).await;
    let projector = fixture.projector().await;
    let is_over = AtomicBool::new(false);
    let appends = async {
        for round in 0..ROUNDS {
            append_round(&fixture, first, "first", round).await;
            if round % 4 == 1 {
                let unknown = fixture.log().await.pop().unwrap();
                paint(fixture.database.pool(), &unknown).await;
                append_round(&fixture, second, "second", round / 4).await;
                restore(fixture.database.pool(), &unknown).await;
            }
            retry(&fixture.database.pool().clone().into(), None)
                .await
                .unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let verifications = async {
        while !is_over.load(Ordering::Relaxed) {
            assert_eq!(findings(&fixture).await, []);
        }
    };
    tokio::join!(appends, verifications);
    retry(&fixture.database.pool().clone().into(), None)
        .await
        .unwrap();
    fixture.eventually_complete().await;
    projector.stop().await;
    assert_eq!(findings(&fixture).await, []);
}

#[tokio::test]
async fn repair_beside_running_projector_matches_the_log() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let account_id = fixture.account_with_links("owner", 8).await;
    let projector = fixture.projector().await;
    fixture.eventually_complete().await;
    for statement in [
        "UPDATE read_model.links SET destination_url = 'x', slug = 'x' WHERE slug = 'owner-1X'",
        "UPDATE read_model.redirects SET state = 'deleted' WHERE slug_key = 'owner-2x'",
        "DELETE FROM read_model.credit_entries WHERE balance_after = 999995",
        "UPDATE read_model.credit_balances SET balance = 7",
        "INSERT INTO read_model.stopped_accounts SELECT 1, account_id FROM read_model.credit_balances",
    ] {
        damage(pool, statement).await;
    }
    let appends = async {
        for round in 0..ROUNDS {
            let name = format!("round-{round}");
            fixture.append_links(account_id, &name, 3).await;
        }
    };
    tokio::join!(appends, repair_all(&fixture));
    fixture.eventually_complete().await;
    projector.stop().await;
    assert_eq!(findings(&fixture).await, []);
}

#[tokio::test]
async fn verify_compares_accounts_released_meanwhile() {
    let fixture = Fixture::new().await;
    let pool = fixture.database.pool();
    let parked = fixture.account_with_links("parked", 1).await;
    let unknown = fixture.log().await.pop().unwrap();
    paint(pool, &unknown).await;
    // More than a bucket: the rows are compared long before the end.
    fixture
        .neighbour_with_links(parked, "neighbour", 2_600)
        .await;
    let mut followers = fixture.followers();
    followers.cycle(fixture.log().await).await.unwrap();
    cycle_until_idle(&mut followers).await;
    restore(pool, &unknown).await;

    let is_released = AtomicBool::new(false);
    let release = |events| {
        if events == 5_000 && !is_released.swap(true, Ordering::Relaxed) {
            let url = fixture.database.url();
            thread::scope(|scope| scope.spawn(|| release_and_damage(url)).join().unwrap());
        }
    };
    let target = super::first_generation(Projection::Links);
    // The release blocks the thread while another snapshot is open: no timeout may end it.
    let url = fixture.database.url();
    let session = linkledger_event_store::pool(url, SessionKind::Reader, SESSIONS).unwrap();
    let verified = verify::verify_generation(&session.clone().into(), target, &release).await;
    let named = verified.unwrap().findings.named;
    assert!(is_released.into_inner());
    assert_eq!(named.len(), 1);
    assert_eq!(
        (named[0].kind, named[0].account_id),
        (FindingKind::Different, parked)
    );
    // The tables are read by key without statistics too.
    assert_eq!(findings(&fixture).await.len(), 1);
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
