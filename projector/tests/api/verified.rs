//! Compares all read tables with the log, as `projector verify` does.

use linkledger_event_store::SessionKind;
use linkledger_projector::{
    operations::verify::{self, GenerationTarget, SESSIONS, VerificationReport},
    read_models::Projection,
};
use linkledger_service::databases::Databases;

use crate::fixture::Fixture;

/// Returns the first generation of a projection.
pub(crate) const fn first_generation(projection: Projection) -> GenerationTarget {
    GenerationTarget {
        projection,
        generation: 1,
    }
}

pub(crate) fn sessions(fixture: &Fixture) -> Databases {
    fixture.databases(SessionKind::Writer, SESSIONS)
}

pub(crate) async fn verify_all(fixture: &Fixture) -> Vec<VerificationReport> {
    let pool = sessions(fixture);
    let mut all = Vec::new();
    for target in Projection::ALL.map(first_generation) {
        all.push(
            verify::verify_generation(&pool, target, &|_| ())
                .await
                .unwrap(),
        );
    }
    pool.close().await;
    all
}

/// Checks that the tables, which no process writes to, have each expected row once.
pub(crate) async fn assert_nothing_is_wrong(fixture: &Fixture) {
    for verified in verify_all(fixture).await {
        assert!(verified.findings.is_empty(), "{verified:?}");
        assert_eq!(verified.rows_expected, verified.rows_found, "{verified:?}");
    }
}
