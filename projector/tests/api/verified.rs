//! Compares all read tables with the log, as `projector verify` does.

use linkledger_core::{databases::Databases, event_store::SessionKind};
use linkledger_projector::{
    operations::verify::{self, GenerationTarget, SESSIONS, VerificationReport},
    read_models::Projection,
};

use crate::stage::Stage;

/// Returns the first generation of a projection.
pub(crate) const fn first_generation(projection: Projection) -> GenerationTarget {
    GenerationTarget {
        projection,
        generation: 1,
    }
}

pub(crate) fn sessions(stage: &Stage) -> Databases {
    stage.databases(SessionKind::Writer, SESSIONS)
}

pub(crate) async fn verify_all(stage: &Stage) -> Vec<VerificationReport> {
    let pool = sessions(stage);
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
pub(crate) async fn assert_nothing_is_wrong(stage: &Stage) {
    for verified in verify_all(stage).await {
        assert!(verified.findings.is_empty(), "{verified:?}");
        assert_eq!(verified.rows_expected, verified.rows_found, "{verified:?}");
    }
}
