//! A rebuild of any log leads to the rows of the projector, unreadable events included.

use std::collections::BTreeSet;

use proptest::{prelude::*, sample::Index};
use sqlx::PgPool;
use tokio::runtime;
use uuid::Uuid;

use crate::{
    equivalence::{Owner, apply_in_batches, request},
    fixture::Fixture,
    poisoned::{paint, restore},
    rebuild::{NO_SWAP, TO_SWAP, rebuild_all, sessions},
    tables::Tables,
};
use linkledger_projector::operations::rebuild::RebuildSettings;

/// Parked accounts of a generation, and their waiting events.
async fn parked(pool: &PgPool, generation: i32) -> BTreeSet<(String, Uuid, i64, String, i64)> {
    let rows: Vec<(String, Uuid, i64, String, i64)> = sqlx::query_as(
        "SELECT a.projection, a.account_id, a.position, a.detail, e.position
         FROM read_model.parked_accounts AS a
         JOIN read_model.parked_events AS e USING (projection, generation, account_id)
         WHERE a.generation = $1",
    )
    .bind(generation)
    .fetch_all(pool)
    .await
    .unwrap();
    rows.into_iter().collect()
}

/// Applies the log in batches, and rebuilds up to its head.
async fn apply_and_rebuild(fixture: &Fixture, lengths: &[usize], settings: RebuildSettings) {
    apply_in_batches(fixture, &fixture.log().await, lengths).await;
    let pool = sessions(fixture);
    for rebuilt in rebuild_all(&pool, settings).await {
        assert!(rebuilt.verified_events > 0);
    }
    assert_eq!(
        Tables::read_generation(&pool, 2).await,
        Tables::read(&pool).await
    );
    assert_eq!(parked(&pool, 2).await, parked(&pool, 1).await);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn rebuild_of_any_log_matches_projector(
        requests in prop::collection::vec((any::<bool>(), request()), 0..30),
        later_requests in prop::collection::vec((any::<bool>(), request()), 0..30),
        lengths in prop::collection::vec(1..12_usize, 1..6),
        unknown in prop::collection::vec(any::<Index>(), 0..3),
    ) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new().await;
            let first = Owner::set_up(&fixture).await;
            let second = Owner::next_to(&fixture, &first).await;
            let mut owners = [first, second];
            for (is_second, request) in requests {
                owners[usize::from(is_second)].fulfil(&fixture, request).await;
            }
            let log = fixture.log().await;
            let unknown: BTreeSet<usize> = unknown.iter().map(|it| it.index(log.len())).collect();
            for index in &unknown {
                paint(fixture.database.pool(), &log[*index]).await;
            }
            apply_and_rebuild(&fixture, &lengths, NO_SWAP).await;
            // The command side can read these events; only the projector and the rebuild cannot.
            for index in &unknown {
                restore(fixture.database.pool(), &log[*index]).await;
            }
            for (is_second, request) in later_requests {
                owners[usize::from(is_second)].fulfil(&fixture, request).await;
            }
            for index in &unknown {
                paint(fixture.database.pool(), &log[*index]).await;
            }
            apply_and_rebuild(&fixture, &lengths, TO_SWAP).await;
        });
    }
}
