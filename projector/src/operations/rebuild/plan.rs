//! Plan of a rebuild: a new generation, or one that an earlier rebuild has begun.

use anyhow::Context as _;
use linkledger_event_store::log::{self, PerShard};
use linkledger_service::databases::Databases;

use super::{
    GenerationBuild,
    catch_up::{is_same_log, rest},
    generation::{self, Generation},
};
use crate::{pipeline::checkpoint::Role, read_models::Projection};

/// Plan of a rebuild.
#[derive(Debug, Clone, Copy)]
pub struct RebuildPlan {
    /// Generation to build.
    pub build: GenerationBuild,
    /// True if an earlier rebuild has begun the generation.
    pub is_begun: bool,
    /// Unfinished generation of an earlier epoch, which is dropped first.
    pub stale: Option<i32>,
    /// Epoch of the log.
    pub epoch: i32,
    /// Number of events to read.
    pub events: u64,
}

/// Returns the plan of a rebuild; changes nothing.
///
/// # Errors
/// Returns an error if the log has lost events and its epoch was not raised, or if the database
/// fails.
pub async fn plan(databases: &Databases, projection: Projection) -> anyhow::Result<RebuildPlan> {
    let pool = &databases.read;
    let known = generation::list(pool, projection)
        .await
        .context("cannot read the generations")?;
    let live = generation::active(pool, projection)
        .await
        .context("cannot read which generation is served")?;
    is_same_log(databases, projection, live).await?;
    let end = log::end(&databases.log)
        .await
        .context("cannot read the log's end")?;
    // A generation that is served by now is not continued, whatever its recorded phase.
    let begun = known
        .iter()
        .find(|it| it.phase.is_building() && it.number != live);
    let build_of = |generation| GenerationBuild {
        projection,
        generation,
        role: Role::Building,
        live,
    };
    let mut stale = None;
    if let Some(Generation { number, .. }) = begun {
        let build = build_of(*number);
        let standing = build.standing(pool).await?;
        if standing.epoch == end.epoch {
            return Ok(RebuildPlan {
                build,
                is_begun: true,
                stale,
                epoch: end.epoch,
                events: rest(&standing.positions, &end.heads),
            });
        }
        stale = Some(*number);
    }
    let highest = generation::highest(pool, projection)
        .await
        .context("cannot read which numbers are given out")?;
    Ok(RebuildPlan {
        build: build_of(highest + 1),
        is_begun: false,
        stale,
        epoch: end.epoch,
        events: rest(&PerShard::default(), &end.heads),
    })
}

/// Returns the number of events that the generation lacks.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn events_to_head(databases: &Databases, build: GenerationBuild) -> anyhow::Result<u64> {
    let heads = log::heads(&databases.log)
        .await
        .context("cannot read the heads of the log")?;
    Ok(rest(
        &build.standing(&databases.read).await?.positions,
        &heads,
    ))
}
