//! A projector resumes at its checkpoint after a restart.

use linkledger_core::cloud_event::PublishedEvent;
use linkledger_event_store::transaction::PoolTransaction;
use proptest::{prelude::*, sample::Index};
use tokio::runtime;

use crate::{fixture::Fixture, tables::Tables};

#[tokio::test]
async fn restart_loses_and_repeats_nothing() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("before", 20).await;
    let first = fixture.projector().await;
    fixture.publish(&fixture.log().await).await;
    fixture.eventually_complete().await;
    first.stop().await;

    let published = fixture.log().await.len();
    fixture.append_links(account_id, "after", 20).await;
    fixture.publish(&fixture.log().await[published..]).await;
    let second = fixture.projector().await;
    fixture.eventually_complete().await;
    second.stop().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn restarts_at_any_point_reproduce_tables(
        cuts in prop::collection::vec(any::<Index>(), 0..5),
        withheld in prop::collection::vec(any::<Index>(), 0..5),
        batch_length in 1..12_usize,
    ) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new().await;
            for name in ["one", "two", "three"] {
                fixture.account_with_links(name, 5).await;
            }
            let log = fixture.log().await;
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(log.len())).collect();
            cuts.sort_unstable();
            cuts.push(log.len());
            let withheld: Vec<usize> = withheld.iter().map(|it| it.index(log.len())).collect();
            let mut from = 0;
            for to in cuts {
                let piece = (from..to).filter(|index| !withheld.contains(index));
                let piece: Vec<_> = piece.map(|index| log[index].clone()).collect();
                apply_and_end(&fixture, &piece, batch_length).await;
                from = to;
            }
            // Withheld events at the end of the log leave no gap that followers could notice.
            apply_and_end(&fixture, &log, log.len()).await;
            let tables = Tables::read(fixture.database.pool()).await;
            assert_eq!(tables, Tables::of_log(&log));
        });
    }
}

/// Runs one process, which applies the events and ends.
async fn apply_and_end(fixture: &Fixture, events: &[PublishedEvent], batch_length: usize) {
    let mut followers = fixture.followers();
    for batch in events.chunks(batch_length) {
        followers.cycle(batch.to_vec()).await.unwrap();
    }
}

#[tokio::test]
async fn commits_lost_in_crash_are_applied_again() {
    let fixture = Fixture::new().await;
    let account_id = fixture.account_with_links("taken-back", 5).await;
    let projector = fixture.projector().await;
    fixture.eventually_complete().await;
    // The state after a crash: rows and checkpoints of one earlier moment, and no new event.
    let mut tx = PoolTransaction::begin(fixture.database.pool())
        .await
        .unwrap();
    for statement in [
        "DELETE FROM read_model.links",
        "DELETE FROM read_model.redirects",
        "DELETE FROM read_model.stopped_accounts",
        "DELETE FROM read_model.credit_balances",
        "DELETE FROM read_model.credit_entries",
        "UPDATE read_model.checkpoints SET position = 0",
    ] {
        sqlx::query(statement).execute(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
    fixture.eventually_complete().await;
    assert_eq!(fixture.log().await.len(), 11, "{account_id}");
    projector.stop().await;
}
