//! Rollback: brings the previous generation up to date, verifies it, and swaps it back in.

use std::{num::NonZeroU32, sync::Arc, time::Instant};

use anyhow::{Context as _, ensure};
use linkledger_event_store::log_meta;
use linkledger_service::databases::Databases;

use super::{
    GenerationBuild, RebuildReport, finish,
    generation::{self, Generation, GenerationPhase},
    loading::Loader,
};
use crate::{pipeline::checkpoint::Role, progress::ProgressReport, read_models::Projection};

/// Returns the generation that was served before the current one.
///
/// # Errors
/// Returns an error if there is none, if it is of an earlier epoch of the log, or if the database
/// fails.
pub async fn plan(
    databases: &Databases,
    projection: Projection,
) -> anyhow::Result<GenerationBuild> {
    let pool = &databases.read;
    let known = generation::list(pool, projection)
        .await
        .context("cannot read the generations")?;
    let kept = known
        .iter()
        .filter(|it| it.phase == GenerationPhase::Standby);
    let last = kept.max_by_key(|it| (it.last_active_at, it.number));
    let Generation { number, .. } = last.with_context(|| {
        format!(
            "`{projection}` has no earlier generation; `projector rebuild {projection}` makes a new \
             one"
        )
    })?;
    let live = generation::active(pool, projection)
        .await
        .context("cannot read which generation is served")?;
    let build = GenerationBuild {
        projection,
        generation: *number,
        role: Role::Standby,
        live,
    };
    let epoch = log_meta::epoch(&databases.log)
        .await
        .context("cannot read the log's epoch")?;
    let standing = build.standing(pool).await?;
    ensure!(
        standing.epoch == epoch,
        "{build} is of epoch {} of the log, which is of epoch \
         {epoch}: a rollback is not possible; `projector drop {projection} {number}` drops it",
        standing.epoch
    );
    Ok(build)
}

/// Swaps the previous generation back in. `max_rate` limits the events that are read per second.
///
/// # Errors
/// Returns an error as [`plan`] does, if a row of the generation is wrong, or if the database
/// fails for long.
pub async fn rollback(
    databases: &Databases,
    projection: Projection,
    max_rate: Option<NonZeroU32>,
    progress: Arc<ProgressReport>,
) -> anyhow::Result<RebuildReport> {
    let begun_at = Instant::now();
    let build = plan(databases, projection).await?;
    let loader = Loader::new(databases, max_rate, progress);
    let starts = build.standing(&databases.read).await?.positions;
    finish(&loader, build, &starts, true, begun_at).await
}
