//! Back to the generation that was served before: it is brought up to date as a new one is, compared,
//! and takes the place of the one that is served.

use std::{num::NonZeroU32, sync::Arc, time::Instant};

use anyhow::{Context as _, ensure};
use linkledger_core::event_store::log;
use sqlx::PgPool;

use super::{
    Build, Rebuilt, finish,
    generation::{self, Generation, Phase},
    loading::Loader,
    pace::Pace,
    reading::Reading,
};
use crate::{
    operations::progress::ProgressSink, pipeline::checkpoint::Role, read_models::Projection,
};

/// The generation to go back to: the one that was served last.
///
/// # Errors
/// When there is none, it is of an earlier epoch of the log, or the database does not answer.
pub async fn plan(pool: &PgPool, projection: Projection) -> anyhow::Result<Build> {
    let known = generation::list(pool, projection)
        .await
        .context("can't read the generations")?;
    let kept = known.iter().filter(|it| it.phase == Phase::Standby);
    let last = kept.max_by_key(|it| (it.last_active_at, it.number));
    let Generation { number, .. } = last.with_context(|| {
        format!(
            "`{projection}` has no earlier generation that is kept; `projector rebuild \
             {projection}` makes a new one"
        )
    })?;
    let live = generation::active(pool, projection)
        .await
        .context("can't read which generation is served")?;
    let build = Build {
        projection,
        generation: *number,
        role: Role::Standby,
        live,
    };
    let epoch = log::epoch(pool)
        .await
        .context("can't read the log's epoch")?;
    let standing = build.standing(pool).await?;
    ensure!(
        standing.epoch == epoch,
        "generation {number} of `{projection}` is of epoch {} of the log, which is of epoch \
         {epoch}: it can't be gone back to; `projector drop {projection} {number}`",
        standing.epoch
    );
    Ok(build)
}

/// Goes back; what the generation lacks is read with so many events per second at most.
///
/// # Errors
/// As [`plan`]; or when the generations differ, or the database does not answer for long.
pub async fn rollback(
    pool: &PgPool,
    projection: Projection,
    max_rate: Option<NonZeroU32>,
    progress: Arc<dyn ProgressSink>,
) -> anyhow::Result<Rebuilt> {
    let begun_at = Instant::now();
    let build = plan(pool, projection).await?;
    let loader = Loader {
        pool: pool.clone(),
        pace: Arc::new(Pace::new(max_rate)),
        progress,
    };
    let standing = build.standing(pool).await?;
    let mut readings = standing.positions.map(Reading::from);
    finish(&loader, build, &mut readings, true, begun_at).await
}
