//! What is known of a read model when another generation of it is served.

use linkledger_projector::{
    operations::verify::{self, outcome},
    read_models::Projection,
};

use super::{TARGETS, damage, history, sessions};
use crate::{
    rebuild::{self, TO_SWAP, rebuild_all},
    stage::Stage,
};

/// Verifies what there is, and notes it.
async fn verify_and_record(stage: &Stage) {
    let pool = sessions(stage);
    for target in TARGETS {
        let verified = verify::generation(&pool, target, &|_| ()).await.unwrap();
        outcome::record(&pool, &verified, "ada").await.unwrap();
    }
    pool.close().await;
}

async fn last(stage: &Stage, projection: Projection) -> outcome::LastOutcome {
    let last = outcome::last(stage.database.pool(), projection).await;
    last.unwrap()
}

#[tokio::test]
async fn a_swap_keeps_when_it_was_verified() {
    let stage = Stage::set().await;
    history(&stage).await;
    verify_and_record(&stage).await;
    let mut before = Vec::new();
    for projection in Projection::ALL {
        before.push(last(&stage, projection).await);
    }
    assert!(before.iter().all(|it| it.verified_at_s > 0.0));
    let rebuilt = rebuild_all(&rebuild::sessions(&stage), TO_SWAP).await;
    assert!(rebuilt.iter().all(|it| it.served), "{rebuilt:?}");
    for (projection, before) in Projection::ALL.into_iter().zip(before) {
        assert_eq!(last(&stage, projection).await, before);
    }
}

#[tokio::test]
async fn a_generation_that_was_compared_with_the_log_is_verified_by_that() {
    let stage = Stage::set().await;
    history(&stage).await;
    damage(
        stage.database.pool(),
        "UPDATE read_model.links SET destination_url = 'x' WHERE slug = 'first-1X'",
    )
    .await;
    verify_and_record(&stage).await;
    let before = last(&stage, Projection::Links).await;
    assert_eq!(before.mismatches, 1);
    rebuild_all(&rebuild::sessions(&stage), TO_SWAP).await;
    let after = last(&stage, Projection::Links).await;
    assert_eq!(after.mismatches, 0);
    assert!(after.verified_at_s > before.verified_at_s);
}
