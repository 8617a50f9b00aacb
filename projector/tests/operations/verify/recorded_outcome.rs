//! The record of the last verification after a swap of generations.

use linkledger_projector::{
    operations::verify::{self, outcome},
    read_models::Projection,
};

use super::{damage, history};
use crate::{
    fixture::Fixture,
    rebuild::{self, TO_SWAP, rebuild_all},
    verified::{first_generation, sessions},
};

/// Verifies all projections, and records the results.
async fn verify_and_record(fixture: &Fixture) {
    let pool = sessions(fixture);
    for target in Projection::ALL.map(first_generation) {
        let verified = verify::verify_generation(&pool, target, &|_| ())
            .await
            .unwrap();
        outcome::record(&pool.read, &verified).await.unwrap();
    }
    pool.close().await;
}

async fn last(fixture: &Fixture, projection: Projection) -> outcome::LastVerification {
    let last = outcome::last(fixture.database.pool(), projection).await;
    last.unwrap().unwrap()
}

#[tokio::test]
async fn rebuild_records_its_verification() {
    let fixture = Fixture::new().await;
    history(&fixture).await;
    damage(
        fixture.database.pool(),
        "UPDATE read_model.links SET destination_url = 'x' WHERE slug = 'first-1X'",
    )
    .await;
    verify_and_record(&fixture).await;
    let before = last(&fixture, Projection::Links).await;
    assert_eq!(before.mismatches, 1);
    rebuild_all(&rebuild::sessions(&fixture), TO_SWAP).await;
    let after = last(&fixture, Projection::Links).await;
    assert_eq!(after.mismatches, 0);
    assert!(after.verified_at > before.verified_at);
}
