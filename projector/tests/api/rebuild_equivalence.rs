//! Any log rebuilt is what the projector makes of it, whatever of it can't be projected.

use std::collections::BTreeSet;

use proptest::{prelude::*, sample::Index};
use sqlx::PgPool;
use tokio::runtime;
use uuid::Uuid;

use crate::{
    equivalence::{Owner, apply_in_batches, wish},
    poisoned::{paint, restore},
    rebuild::{NO_SWAP, TO_SWAP, rebuild_all, sessions},
    stage::Stage,
    tables::Tables,
};
use linkledger_projector::operations::rebuild::RebuildSettings;

/// Who is parked in a generation for what, and what waits.
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

/// The projector takes it in batches; a rebuild, up to here.
async fn apply_and_rebuild(stage: &Stage, lengths: &[usize], settings: RebuildSettings) {
    apply_in_batches(stage, &stage.log().await, lengths).await;
    let pool = sessions(stage);
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
    fn any_log_rebuilt_at_once_or_bit_by_bit_is_what_the_projector_makes_of_it(
        wishes in prop::collection::vec((any::<bool>(), wish()), 0..30),
        later_wishes in prop::collection::vec((any::<bool>(), wish()), 0..30),
        lengths in prop::collection::vec(1..12_usize, 1..6),
        unknown in prop::collection::vec(any::<Index>(), 0..3),
    ) {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stage = Stage::set().await;
            let first = Owner::set_up(&stage).await;
            let second = Owner::next_to(&stage, &first).await;
            let mut owners = [first, second];
            for (is_second, wish) in wishes {
                owners[usize::from(is_second)].fulfil(&stage, wish).await;
            }
            let log = stage.log().await;
            let unknown: BTreeSet<usize> = unknown.iter().map(|it| it.index(log.len())).collect();
            for index in &unknown {
                paint(stage.database.pool(), &log[*index]).await;
            }
            apply_and_rebuild(&stage, &lengths, NO_SWAP).await;
            // Whoever appends can read what is there; only the projector and the rebuild can't.
            for index in &unknown {
                restore(stage.database.pool(), &log[*index]).await;
            }
            for (is_second, wish) in later_wishes {
                owners[usize::from(is_second)].fulfil(&stage, wish).await;
            }
            for index in &unknown {
                paint(stage.database.pool(), &log[*index]).await;
            }
            apply_and_rebuild(&stage, &lengths, TO_SWAP).await;
        });
    }
}
