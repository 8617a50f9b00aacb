//! Whether a generation may be served: if it says what the one says that is served, or else what
//! the log says, by a way that shares nothing with the projections.

use anyhow::{Context as _, bail};

use super::{Build, comparison::Comparison, loading::Loader};
use crate::{
    operations::verify::{self, outcome},
    read_models::tables::Target,
};

/// Who has verified it, for the record: whose command it is, stands in that of the commands.
const RECORDED_BY: &str = "rebuild";

/// How many events the generation was compared with; `None` if that was not needed.
///
/// # Errors
/// When it must not be served, or the database does not answer.
pub(super) async fn judge(
    loader: &Loader,
    build: Build,
    comparison: Option<&Comparison>,
) -> anyhow::Result<Option<u64>> {
    if comparison.is_some_and(|comparison| comparison.differences.is_empty()) {
        return Ok(None);
    }
    let Build {
        projection,
        generation,
        live,
        ..
    } = build;
    let standing = build.standing(&loader.pool).await?;
    let events = standing.positions.iter().sum::<i64>().unsigned_abs();
    loader
        .progress
        .enter(&format!("{projection}: verifying"), events, "events");
    let target = Target {
        projection,
        generation,
    };
    let on_progress = |events| loader.progress.advance(events);
    let verified = verify::generation(&loader.pool, target, &on_progress).await?;
    outcome::record(&loader.pool, &verified, RECORDED_BY)
        .await
        .context("can't note what was verified")?;
    if verified.findings.is_empty() {
        return Ok(Some(verified.events));
    }
    let named = serde_json::to_string(&verified.findings.named.first())
        .context("can't tell what was found")?;
    bail!(
        "generation {generation} of `{projection}` does not say what the log says: {} rows are \
         wrong, the first one {named}. Generation {live} is served still. `projector drop \
         {projection} {generation}`, then `projector rebuild {projection}` makes a new one",
        verified.findings.mismatches
    )
}
