//! The verification of a generation before the swap.

use anyhow::{Context as _, bail};

use super::{GenerationBuild, loading::Loader};
use crate::{
    operations::verify::{self, GenerationTarget, outcome},
    pipeline::retry::retried,
};

/// Verifies the generation with the log, records the outcome, and returns the number of verified
/// events.
///
/// # Errors
/// Returns an error if a row is wrong, or if the database fails.
pub(super) async fn ensure_verified(
    loader: &Loader,
    build: GenerationBuild,
) -> anyhow::Result<u64> {
    let GenerationBuild {
        projection,
        generation,
        live,
        ..
    } = build;
    let target = GenerationTarget {
        projection,
        generation,
    };
    let events = verify::event_count(&loader.databases.read, target).await?;
    loader
        .progress
        .enter(&format!("{projection}: verifying"), events, "events");
    let on_progress = |events| loader.progress.advance(events);
    let verified = verify::verify_generation(&loader.databases, target, &on_progress).await?;
    retried(|| async {
        let recorded = outcome::record(&loader.databases.read, &verified).await;
        recorded.context("cannot record the outcome of the verification")
    })
    .await?;
    if verified.findings.is_empty() {
        return Ok(verified.events);
    }
    let named = serde_json::to_string(&verified.findings.named.first())
        .context("cannot print the first wrong row")?;
    bail!(
        "{build} does not say what the log says: {} rows are wrong, the first one is {named}. Generation {live} is still served. `projector drop \
         {projection} {generation}`, then `projector rebuild {projection}` makes a new one",
        verified.findings.mismatches
    )
}
