//! Read tables on a server of their own: the pipeline and the operators' commands read the log from one
//! server, and write the tables of the other.

use std::sync::Arc;

use linkledger_core::event::Subject;
use linkledger_event_store::SessionKind;
use linkledger_projector::{
    operations::{
        parked::retry,
        rebuild::{self, CONNECTIONS_MAX, RebuildSettings, rollback},
        status,
        verify::{
            subject::{self, VerifiedSubject},
            verify_generation,
        },
    },
    progress::ProgressReport,
    read_models::Projection,
};
use linkledger_service::{doctor::admission::check, log_identity};

use crate::{
    fixture::Fixture,
    poisoned::{paint, parkings, restore},
    rebuild::TO_SWAP,
    tables::Tables,
    verified::{assert_nothing_is_wrong, first_generation, verify_all},
    verify::{damage, history, repair_all, subject::repair_account},
};

/// Statements on the server of the read tables that damage one row each.
const DAMAGES: [&str; 6] = [
    "DELETE FROM read_model.links WHERE slug = 'first-1X'",
    "UPDATE read_model.redirects SET state = 'active' WHERE state = 'disabled'",
    "INSERT INTO read_model.redirects
     SELECT 1, 'never-given', link_id, account_id, destination_url FROM read_model.redirects
     WHERE slug_key = 'second-0x'",
    "INSERT INTO read_model.stopped_accounts SELECT 1, gen_random_uuid()",
    "UPDATE read_model.credit_entries SET amount = -2 WHERE balance_after = 999997",
    "DELETE FROM read_model.credit_balances WHERE balance = 999990",
];

#[tokio::test]
async fn read_tables_follow_log_of_another_server() {
    let fixture = Fixture::set_on_two_servers().await;
    let account_id = fixture.account_with_links("every", 1).await;
    fixture.append_every_change(account_id, "every").await;
    let log = fixture.log().await;
    fixture.followers().cycle(log.clone()).await.unwrap();
    assert_eq!(
        Tables::read(fixture.read.pool()).await,
        Tables::of_log(&log)
    );
    assert_nothing_is_wrong(&fixture).await;

    let databases = fixture.databases(SessionKind::Writer, 2);
    let subject = VerifiedSubject::find(&databases.log, Subject::Account(account_id)).await;
    let target = first_generation(Projection::Links);
    let verified = subject::verify(&databases, target, &subject.unwrap()).await;
    assert!(verified.unwrap().found.findings.is_empty());
    let status = status::collect(&databases).await.unwrap();
    assert_eq!(status.log_epoch, 1);
}

#[tokio::test]
async fn damage_on_another_server_is_found_and_repaired() {
    let fixture = Fixture::set_on_two_servers().await;
    history(&fixture).await;
    let expected = Tables::read(fixture.read.pool()).await;
    for statement in DAMAGES {
        damage(fixture.read.pool(), statement).await;
    }
    let found: u64 = verify_all(&fixture)
        .await
        .iter()
        .map(|it| it.findings.mismatches)
        .sum();
    assert_eq!(found, DAMAGES.len() as u64);
    assert_eq!(repair_all(&fixture).await, DAMAGES.len() as u64);
    assert_eq!(Tables::read(fixture.read.pool()).await, expected);
}

#[tokio::test]
async fn rebuild_and_rollback_work_on_two_servers() {
    let fixture = Fixture::set_on_two_servers().await;
    history(&fixture).await;
    let databases = fixture.databases(SessionKind::Projector, CONNECTIONS_MAX);
    let progress = || Arc::new(ProgressReport::silent());
    let settings: RebuildSettings = TO_SWAP;
    let rebuilt = rebuild::rebuild(&databases, &Projection::ALL, settings, progress()).await;
    assert!(rebuilt.unwrap().iter().all(|it| it.served));
    let back = rollback::rollback(&databases, Projection::Links, None, progress()).await;
    assert_eq!(back.unwrap().generation, 1);
}

#[tokio::test]
async fn parked_account_is_released_on_two_servers() {
    let fixture = Fixture::set_on_two_servers().await;
    let account_id = fixture.account_with_links("parked", 2).await;
    let log = fixture.log().await;
    let poison = &log[log.len() - 1];
    paint(fixture.database.pool(), poison).await;
    let painted = fixture.log().await;
    fixture.followers().cycle(painted).await.unwrap();
    assert!(!parkings(fixture.read.pool(), account_id).await.is_empty());
    assert_nothing_is_wrong(&fixture).await;

    restore(fixture.database.pool(), poison).await;
    let databases = fixture.databases(SessionKind::Writer, 2);
    let retried = retry(&databases, Some(account_id)).await.unwrap();
    assert!(retried.iter().all(|it| it.released), "{retried:?}");
    damage(
        fixture.read.pool(),
        "DELETE FROM read_model.links WHERE slug = 'parked-1X'",
    )
    .await;
    let repaired = repair_account(&databases, Projection::Links, account_id).await;
    assert_eq!(repaired, 1);
    assert_eq!(
        Tables::read(fixture.read.pool()).await,
        Tables::of_log(&log)
    );
    assert_nothing_is_wrong(&fixture).await;
}

#[tokio::test]
async fn read_tables_refuse_another_log() {
    let fixture = Fixture::set_on_two_servers().await;
    history(&fixture).await;
    let databases = fixture.databases(SessionKind::Projector, CONNECTIONS_MAX);
    // As if the first `migrate` had been interrupted after the migrations.
    log_identity::adopt(&databases).await.unwrap();
    assert_nothing_is_wrong(&fixture).await;
    let other = "UPDATE event_store.log_meta SET log_id = gen_random_uuid()";
    damage(fixture.database.pool(), other).await;
    let expected = Tables::read(fixture.read.pool()).await;
    fixture.account_with_links("foreign", 1).await;

    let is_refusal = |error: anyhow::Error| {
        let error = format!("{error:#}");
        error.contains("READ_DATABASE_URL") && error.contains("LOG_DATABASE_URL")
    };
    let mut followers = fixture.followers();
    followers.cycle(fixture.log().await).await.unwrap();
    assert_eq!(Tables::read(fixture.read.pool()).await, expected);
    for target in Projection::ALL.map(first_generation) {
        let verified = verify_generation(&databases, target, &|_| ()).await;
        assert!(is_refusal(verified.unwrap_err()), "{target:?}");
    }
    let progress = Arc::new(ProgressReport::silent());
    let rebuilt = rebuild::rebuild(&databases, &Projection::ALL, TO_SWAP, progress).await;
    assert!(is_refusal(rebuilt.unwrap_err()));
    assert!(is_refusal(check(&fixture.settings()).await.unwrap_err()));
    assert!(is_refusal(
        log_identity::adopt(&databases).await.unwrap_err()
    ));
}

#[tokio::test]
async fn empty_read_tables_follow_another_log() {
    let fixture = Fixture::set_on_two_servers().await;
    let databases = fixture.databases(SessionKind::Projector, 2);
    for _ in 0..2 {
        log_identity::adopt(&databases).await.unwrap();
        check(&fixture.settings()).await.unwrap();
        let other = "UPDATE event_store.log_meta SET log_id = gen_random_uuid()";
        damage(fixture.database.pool(), other).await;
        assert!(check(&fixture.settings()).await.is_err());
    }
}
